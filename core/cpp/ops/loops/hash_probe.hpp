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
/// The index is two arrays: keys[capacity], values[capacity]. capacity is a power of two. A line is
/// 64 bytes of keys. The places of a key are tried line by line, inside a line from a hashed start
/// around to it again; a key lies in a line only when every line before it was full, so a reader
/// may look at a whole line at once. Nothing is ever removed: the index is cleared and rebuilt.
namespace hugectr {

/// Row of a key that is not in the table.
inline constexpr std::uint32_t kNoRow = 0xFFFFFFFFu;
/// Value of a place that is free, or whose key is there but not yet its row.
inline constexpr std::uint64_t kUnpublished = ~std::uint64_t{0};
/// The largest key marks a free place, so it can not be a key of a table.
template <class Key>
inline constexpr Key kEmptyKey = std::numeric_limits<Key>::max();
/// Keys in one line of 64 bytes.
template <class Key>
inline constexpr std::size_t kKeysPerLine = 64 / sizeof(Key);

/// uint32 keys without sign; int64 keys as their bit pattern.
HCTR_HD inline std::uint64_t widen_key(std::uint32_t key) { return key; }
HCTR_HD inline std::uint64_t widen_key(std::int64_t key) { return static_cast<std::uint64_t>(key); }

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

/// The places of one key, in the order they are tried.
template <class Key>
class ProbeWalk {
 public:
  HCTR_HD ProbeWalk(std::uint64_t hash, std::size_t capacity)
      : line_mask_(capacity / kKeysPerLine<Key> - 1),
        line_(hash & line_mask_),
        start_(hash >> 58) {}
  HCTR_HD std::size_t place() const {
    return line_ * kKeysPerLine<Key> + ((start_ + step_) & (kKeysPerLine<Key> - 1));
  }
  /// False when every place has been tried.
  HCTR_HD bool next() {
    if (++step_ < kKeysPerLine<Key>) return true;
    step_ = 0;
    line_ = (line_ + 1) & line_mask_;
    return ++lines_tried_ <= line_mask_;
  }

 private:
  std::size_t line_mask_, line_, start_;
  std::size_t step_ = 0, lines_tried_ = 0;
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
