// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>

#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

/// Concat and Slice see a row as `outer` segments, one range of the axis each.
namespace hugectr {

/// Throws InvalidArgument unless the axis is one of the tensor's, and not that of the batch.
inline void check_axis(const char* op, const char* name, const TensorRef& ref, std::int64_t axis) {
  const std::size_t dims = ref.shape.size();
  HCTR_CHECK(dims >= 2, op, ": ", name, " has shape ", to_string(ref.shape),
             ", must have at least 2 dimensions");
  HCTR_CHECK(axis >= 1 && axis < static_cast<std::int64_t>(dims), op, ": axis is ", axis,
             ", must be 1", dims > 2 ? " to " + std::to_string(dims - 1) : "", " for ", dims,
             "-D tensors");
}

/// Throws InvalidArgument unless both have equal sizes everywhere but at `axis`.
inline void check_equal_but_axis(const char* op, const TensorRef& a, const TensorRef& b,
                                 std::int64_t axis) {
  Shape wanted = b.shape;
  const auto at = static_cast<std::size_t>(axis);
  if (a.shape.size() == wanted.size()) wanted[at] = a.shape[at];
  HCTR_CHECK(a.shape == wanted, op, ": shapes ", to_string(a.shape), " and ", to_string(b.shape),
             " may differ at axis ", axis, " only");
}

/// Segments of one row: the product of the dimensions between the batch and the axis.
inline std::size_t segments(const TensorRef& ref, std::int64_t axis) {
  return std::accumulate(ref.shape.begin() + 1, ref.shape.begin() + axis, std::size_t{1},
                         std::multiplies<>());
}

/// Elements that one step along the axis takes inside a row.
inline std::size_t axis_step(const TensorRef& ref, std::int64_t axis) {
  return std::accumulate(ref.shape.begin() + axis + 1, ref.shape.end(), std::size_t{1},
                         std::multiplies<>());
}

}  // namespace hugectr
