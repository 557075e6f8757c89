// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/export.hpp"
#include "core/cpp/base/scalar_type.hpp"

/// Where a key lies in the index of a hash table: shared by every kernel that reads or writes it.
///
/// The index is one array of places of 16 bytes, a key word and a value word side by side; their
/// number, the capacity, is a power of two. Four places are a line of 64 bytes: what one access to
/// memory brings, so that a key that is found in its first line costs one access in all.
///
/// A key's lines follow each other at an odd distance that its hash decides (keys that meet in one
/// line part ways in the next); inside a line its places are tried from a hashed start around to it
/// again. A key lies in a line only when every line before it is full, so a reader looks at a whole
/// line at once and stops at the first that is not. A key that is removed leaves its place free
/// when its line has another free one: nobody's way led past it then. In a full line the place
/// stays taken, with its key and the row kDeadRow: dead, until the same key comes back or the index
/// is cleared and rebuilt.
namespace hugectr {

/// Row of a key that is not in the table.
inline constexpr std::uint32_t kNoRow = 0xFFFFFFFFu;
/// Row of a dead place; no row has this number.
inline constexpr std::uint32_t kDeadRow = 0xFFFFFFFEu;
/// The largest key marks a free place, so it can not be a key of a table.
template <class Key>
inline constexpr Key kEmptyKey = std::numeric_limits<Key>::max();

/// A place of the index.
struct HashPlace {
  std::uint64_t key;    ///< key_word() of a key, or kFreePlace
  std::uint64_t value;  ///< slot << 32 | row, or kUnpublished
};
inline constexpr std::size_t kPlacesPerLine = 4;
/// All bits of an index that is clear are set, in both words.
inline constexpr std::uint64_t kFreePlace = ~std::uint64_t{0};
/// Value of a place that is free, or whose key is there but not yet its row.
inline constexpr std::uint64_t kUnpublished = ~std::uint64_t{0};

/// What a call on the index reports: an array of int64 with these elements.
enum HashReport : std::size_t {
  kReportedReserved,  ///< least i with the reserved key at keys[i], or -1
  kReportedLost,      ///< keys for which the index had no place
  kReportedOutside,   ///< of a direct index: least i whose key has no place there, or -1
  kReportSize
};

/// uint32 keys without sign; int64 keys as their bit pattern.
HCTR_HD inline std::uint64_t widen_key(std::uint32_t key) { return key; }
HCTR_HD inline std::uint64_t widen_key(std::int64_t key) { return static_cast<std::uint64_t>(key); }

/// Key word of a key: distinct for distinct keys, and kFreePlace for none but the reserved one.
HCTR_HD inline std::uint64_t key_word(std::uint32_t key) { return key; }
HCTR_HD inline std::uint64_t key_word(std::int64_t key) {
  return static_cast<std::uint64_t>(key) ^ std::uint64_t{1} << 63;
}

/// Finaliser of MurmurHash3 over key and slot: neighbouring keys land far apart.
HCTR_HD inline std::uint64_t hash_key(std::uint64_t key, std::uint32_t slot) {
  std::uint64_t h = key + 0x9E3779B97F4A7C15ull * slot;
  h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCDull;
  h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53ull;
  return h ^ (h >> 33);
}

/// Value word of a place: the slot is part of a Localized table's identity.
HCTR_HD inline std::uint64_t pack_value(std::uint32_t slot, std::uint32_t row) {
  return static_cast<std::uint64_t>(slot) << 32 | row;
}
HCTR_HD inline std::uint32_t value_row(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
HCTR_HD inline std::uint32_t value_slot(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

/// The lines of one key, in the order they are tried.
class LineWalk {
 public:
  HCTR_HD LineWalk(std::uint64_t hash, std::size_t capacity)
      : mask_(static_cast<std::uint32_t>(capacity / kPlacesPerLine - 1)),
        line_(static_cast<std::uint32_t>(hash) & mask_),
        hash_(static_cast<std::uint32_t>(hash >> 32)) {}
  HCTR_HD std::uint32_t line() const { return line_; }
  HCTR_HD std::uint32_t tried() const { return tried_; }
  /// First place of the present line.
  HCTR_HD std::size_t first() const { return std::size_t{line_} * kPlacesPerLine; }
  /// The step-th place of the line to try, counted inside it.
  HCTR_HD unsigned place(unsigned step) const {
    return ((hash_ >> 30) + step) & (kPlacesPerLine - 1);
  }
  /// False when every line has been tried.
  HCTR_HD bool next() {
    line_ = (line_ + (hash_ | 1)) & mask_;
    return tried_++ != mask_;
  }
  /// Goes to where another walk of the same key was.
  HCTR_HD void resume(std::uint32_t line, std::uint32_t tried) {
    line_ = line;
    tried_ = tried;
  }

 private:
  std::uint32_t mask_, line_, hash_;
  std::uint32_t tried_ = 0;
};

/// Slot of a bucket on a device that holds slots first, first + stride, ... (`num` of them).
/// num 0: the slot is no part of a row's identity.
struct SlotOfBucket {
  std::uint32_t num = 0, stride = 1, first = 0;
  HCTR_HD std::uint32_t operator()(std::uint32_t bucket) const {
    return num == 0 ? 0 : first + bucket % num * stride;
  }
};

/// Calls f(Key{}) with the C++ type of the keys.
template <class F>
decltype(auto) with_key_type(TensorScalarType dtype, const F& f) {
  if (dtype == TensorScalarType::UInt32) return f(std::uint32_t{});
  HCTR_CHECK(dtype == TensorScalarType::Int64, "keys hold ", to_string(dtype),
             ", must hold uint32 or int64");
  return f(std::int64_t{});
}

}  // namespace hugectr
