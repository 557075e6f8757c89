// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

/// A tensor along one axis: place p of it is, in each of `blocks`, a run of `inner` neighbouring
/// elements, at  block_start(block) + p * step. Axis 0 may be strided rows, and so may the rows of
/// which the blocks of another axis are parts.
struct AxisRuns {
  AxisRuns(const TensorRef& ref, std::int64_t axis)
      : count(ref.shape[static_cast<std::size_t>(axis)]), row_stride(ref.row_stride) {
    for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < ref.shape.size(); ++i) {
      inner *= ref.shape[i];
    }
    step = axis == 0 ? row_stride : inner;
    if (axis == 0) return;
    for (std::size_t i = 1; i < static_cast<std::size_t>(axis); ++i) blocks_per_row *= ref.shape[i];
    blocks = ref.rows() * blocks_per_row;
  }

  std::size_t block_start(std::size_t block) const {
    return block / blocks_per_row * row_stride + block % blocks_per_row * count * inner;
  }

  std::size_t count;  ///< size of the axis
  std::size_t row_stride;
  std::size_t inner = 1, step = 0, blocks = 1, blocks_per_row = 1;
};

}  // namespace hugectr
