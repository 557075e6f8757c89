// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

/// Ops along the last axis see (b, s, n) as b * s rows of n. A tensor of more than two dimensions
/// must then lie without gaps; make_views (core/cpp/schedule) knows these ops.
namespace hugectr {

/// The tensor as a matrix: all dimensions but the last count as rows.
inline TensorRef last_axis_rows(TensorRef ref) {
  if (ref.shape.size() > 2) {
    const std::size_t n = ref.shape.back();
    ref.shape = {n == 0 ? 0 : num_elements(ref.shape) / n, n};
    ref.row_stride = n;
  }
  return ref;
}

/// Throws InvalidArgument for a tensor that last_axis_rows() can not take.
inline void check_last_axis(const char* op, const char* name, const TensorRef& ref) {
  HCTR_CHECK(ref.shape.size() <= 2 || ref.contiguous(), op, ": ", name, " of shape ",
             to_string(ref.shape),
             " must be contiguous (only two-dimensional ones may be strided)");
}

/// check_last_axis() of several tensors.
inline void check_last_axis(const char* op,
                            std::initializer_list<std::pair<const char*, const TensorRef*>> refs) {
  for (const auto& [name, ref] : refs) check_last_axis(op, name, *ref);
}

}  // namespace hugectr
