// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

/// What the embedding ops ask of their integer arrays.
namespace hugectr {

/// Throws InvalidArgument unless `ref` is a packed array of `size` elements of `type`.
inline void check_array(const char* op, const char* name, const TensorRef& ref,
                        TensorScalarType type, std::size_t size) {
  HCTR_CHECK(ref.dtype == type && ref.size() == size && ref.contiguous(), op, ": ", name, " holds ",
             ref.size(), " ", to_string(ref.dtype), ", must hold ", size, " ", to_string(type));
}

/// Throws InvalidArgument unless `ref` is a packed array of at least `size` elements of `type`.
inline void check_array_at_least(const char* op, const char* name, const TensorRef& ref,
                                 TensorScalarType type, std::size_t size) {
  HCTR_CHECK(ref.dtype == type && ref.size() >= size && ref.contiguous(), op, ": ", name, " holds ",
             ref.size(), " ", to_string(ref.dtype), ", must hold at least ", size, " ",
             to_string(type));
}

/// Buckets of row offsets (buckets + 1) uint32.
inline std::size_t check_row_offsets(const char* op, const TensorRef& row_offsets) {
  HCTR_CHECK(row_offsets.dtype == TensorScalarType::UInt32 && row_offsets.size() >= 1 &&
                 row_offsets.contiguous(),
             op, ": row_offsets hold ", to_string(row_offsets.dtype), " of shape ",
             to_string(row_offsets.shape), ", must hold buckets + 1 uint32");
  return row_offsets.size() - 1;
}

}  // namespace hugectr
