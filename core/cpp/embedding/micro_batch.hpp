// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

/// One of `count` equal parts of a device's samples, which goes through a step by itself: its
/// vectors come while the part before it is in the network, and its gradients leave while the next
/// one is. Plans and updates are of the whole batch.
struct MicroBatch {
  std::size_t index = 0, count = 1;

  bool whole() const { return count == 1; }
  bool last() const { return index + 1 == count; }
  /// Of so many samples of a device: how many are its own, and the number of its first.
  std::size_t samples(std::size_t all) const { return all / count; }
  std::size_t first(std::size_t all) const { return index * samples(all); }
  /// Its rows of a tensor with a row a sample; an empty one stays so.
  TensorRef of(TensorRef all) const {
    if (all.empty() || whole()) return all;
    const std::size_t rows = all.shape[0];
    all.data = static_cast<char*>(all.data) + first(rows) * all.row_stride * size_of(all.dtype);
    all.shape[0] = samples(rows);
    return all;
  }
};

}  // namespace hugectr
