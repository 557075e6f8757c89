// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Device that owns a key of a Distributed table. The key's 64 bits count without sign, so negative
/// int64 keys have an owner like any other (facts: key % N).
HCTR_HD inline std::uint64_t owner_of_key(std::uint64_t widened_key, std::uint64_t device_count) {
  return widened_key % device_count;
}

/// Device that owns a slot of a Localized table, and the slot's number there.
HCTR_HD inline std::size_t owner_of_slot(std::size_t slot, std::size_t device_count) {
  return slot % device_count;
}
/// Slots that a device owns.
HCTR_HD inline std::size_t slots_of_device(std::size_t slot_num, std::size_t rank,
                                           std::size_t device_count) {
  return slot_num / device_count + (rank < slot_num % device_count ? 1 : 0);
}

/// Keeps the keys of a batch that device `rank` owns; order inside a bucket stays.
///
///   by key  (Distributed): key % device_count = rank; buckets as in the input
///   by slot (Localized): slot % device_count = rank; buckets of the device's own slots only
///
/// keys (n) uint32 or int64; row_offsets (B*S + 1) uint32, bucket = sample * S + slot.
/// own_keys (>= n); own_row_offsets (B*S + 1 by key, B*S_own + 1 by slot) uint32. Overwrites;
/// the last own offset is the number of own keys. own_places (>= n) uint32 or empty: where each own
/// key lies in `keys`. held (n) uint32 or empty, by key only: of the keys whose held is kNoRow none
/// are kept, or with `keep_held` false only those. Deterministic.
struct HCTR_API FilterKeys {
  static constexpr const char* kName = "filter_keys";
  static constexpr const char* kSeveralName = "several_filter_keys";
  TensorRef keys, row_offsets, own_keys, own_row_offsets, own_places, held;
  std::int64_t slot_num = 1, rank = 0, device_count = 1;
  bool by_slot = false, keep_held = false;

  void visit(OpVisitor& v) {
    v.tensor("keys", Access::In, keys);
    v.tensor("row_offsets", Access::In, row_offsets);
    v.tensor("own_keys", Access::Out, own_keys);
    v.tensor("own_row_offsets", Access::Out, own_row_offsets);
    v.optional("own_places", Access::Out, own_places);
    v.optional("held", Access::In, held);
    v.attribute("slot_num", slot_num);
    v.attribute("rank", rank);
    v.attribute("device_count", device_count);
    v.attribute("by_slot", by_slot);
    v.attribute("keep_held", keep_held);
  }
  void check() const;
  /// Memory of own_places, or null.
  std::uint32_t* places() const {
    return own_places.empty() ? nullptr : own_places.ptr<std::uint32_t>();
  }
};

}  // namespace hugectr
