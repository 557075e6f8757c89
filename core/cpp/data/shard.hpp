// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

namespace hugectr {

/// The part of the data that one process of a job decodes: of the blocks, in the order in which
/// they are read, every `count`-th from `index` on. All processes walk the same order, so they
/// agree on whose a block is, and on what is in a batch, without a word.
struct Shard {
  std::size_t index = 0;
  std::size_t count = 1;

  std::size_t owner(std::uint64_t visit) const { return static_cast<std::size_t>(visit % count); }
  bool owns(std::uint64_t visit) const { return owner(visit) == index; }
  /// How many of the visits [0, end) are this process's.
  std::uint64_t owned_below(std::uint64_t end) const {
    return end > index ? (end - index + count - 1) / count : 0;
  }
  /// The n-th visit of this process.
  std::uint64_t visit(std::uint64_t n) const { return n * count + index; }
};

}  // namespace hugectr
