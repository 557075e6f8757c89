// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

/// The questions nearly every op's check() asks of a tensor.
namespace hugectr {

/// Throws InvalidArgument unless the tensor holds float32 and has at least a batch dimension.
inline void check_float(const char* op, const char* name, const TensorRef& ref) {
  HCTR_CHECK(ref.dtype == TensorScalarType::Float32, op, ": ", name, " holds ",
             to_string(ref.dtype), ", must hold float32");
  HCTR_CHECK(!ref.shape.empty(), op, ": ", name, " is a scalar, must have a batch dimension");
}

/// Throws InvalidArgument unless the tensor holds float32 in exactly this shape.
inline void check_float(const char* op, const char* name, const TensorRef& ref,
                        const Shape& wanted) {
  check_float(op, name, ref);
  HCTR_CHECK(ref.shape == wanted, op, ": ", name, " has shape ", to_string(ref.shape),
             ", must have ", to_string(wanted));
}

/// The same for a tensor whose rows must lie one after the other (parameters, partial sums).
inline void check_packed_float(const char* op, const char* name, const TensorRef& ref,
                               const Shape& wanted) {
  check_float(op, name, ref, wanted);
  HCTR_CHECK(ref.contiguous(), op, ": rows of ", name, " must be contiguous");
}

}  // namespace hugectr
