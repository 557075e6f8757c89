// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <utility>

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

/// The same for parameters and statistics of n columns, by their names.
inline void check_columns(const char* op, std::size_t n,
                          std::initializer_list<std::pair<const char*, const TensorRef*>> tensors) {
  for (const auto& [name, ref] : tensors) check_packed_float(op, name, *ref, {n});
}

/// The same for sums in float64.
inline void check_packed_double(const char* op, const char* name, const TensorRef& ref,
                                const Shape& wanted) {
  HCTR_CHECK(ref.dtype == TensorScalarType::Float64 && ref.shape == wanted && ref.contiguous(), op,
             ": ", name, " must be contiguous float64 of shape ", to_string(wanted), ", found ",
             to_string(ref.dtype), " ", to_string(ref.shape));
}

/// Throws InvalidArgument unless the tensor holds float32, float16 or bfloat16: a field of
/// k16BitFields.
inline void check_real(const char* op, const char* name, const TensorRef& ref) {
  HCTR_CHECK(ref.dtype == TensorScalarType::Float32 || ref.dtype == TensorScalarType::Float16 ||
                 ref.dtype == TensorScalarType::BFloat16,
             op, ": ", name, " holds ", to_string(ref.dtype),
             ", must hold float32, float16 or bfloat16");
  HCTR_CHECK(!ref.shape.empty(), op, ": ", name, " is a scalar, must have a batch dimension");
}

/// Throws InvalidArgument unless the tensor has this dtype and shape: all other k16BitFields
/// fields.
inline void check_real(const char* op, const char* name, const TensorRef& ref,
                       TensorScalarType dtype, const Shape& wanted) {
  HCTR_CHECK(ref.dtype == dtype, op, ": ", name, " holds ", to_string(ref.dtype), ", must hold ",
             to_string(dtype), " like the op's other tensors");
  HCTR_CHECK(ref.shape == wanted, op, ": ", name, " has shape ", to_string(ref.shape),
             ", must have ", to_string(wanted));
}

/// The same for a k16BitFields parameter, whose rows must lie one after the other.
inline void check_packed_real(const char* op, const char* name, const TensorRef& ref,
                              TensorScalarType dtype, const Shape& wanted) {
  check_real(op, name, ref, dtype, wanted);
  HCTR_CHECK(ref.contiguous(), op, ": rows of ", name, " must be contiguous");
}

}  // namespace hugectr
