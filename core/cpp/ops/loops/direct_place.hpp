// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/ops/loops/hash_probe.hpp"

/// Where a key lies in a direct index, which has a place for every key that may come: shared by
/// every kernel that reads or writes it.
///
/// A place is 4 bytes: the row's number, or kNoRow. A slot of n keys has places for the keys 0 ..
/// n - 1, and, unless it is the first, for those with the sizes of the slots before it added, as
/// readers that number keys over all slots give them: both are keys of their own.
namespace hugectr {

/// One slot of a direct index: three int64 of the array that ops take.
struct DirectSlot {
  std::int64_t first = 0;   ///< its first place
  std::int64_t size = 0;    ///< its keys; 0 of a slot that is elsewhere
  std::int64_t before = 0;  ///< sizes of the slots before it
  /// Places that it takes.
  std::int64_t places() const { return before > 0 ? 2 * size : size; }
};

inline constexpr std::uint64_t kNoPlace = ~std::uint64_t{0};
/// Not rows, but what a place holds while a key gets its row, and when there was none left for it.
inline constexpr std::uint32_t kClaimed = kNoRow - 1, kRowRefused = kNoRow - 2;

/// A place's row; kNoRow of what is none.
HCTR_HD inline std::uint32_t row_of_place(std::uint32_t value) {
  return value >= kRowRefused ? kNoRow : value;
}

template <class Key>
HCTR_HD std::uint64_t direct_place(const std::int64_t* slots, std::uint32_t slot, Key key) {
  const std::int64_t* const at = slots + std::size_t{3} * slot;
  const auto first = static_cast<std::uint64_t>(at[0]), size = static_cast<std::uint64_t>(at[1]);
  const auto before = static_cast<std::uint64_t>(at[2]);
  const std::uint64_t wide = widen_key(key);
  if (wide < size) return first + wide;
  if (before > 0 && wide - before < size) return first + size + (wide - before);
  return kNoPlace;
}

}  // namespace hugectr
