// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/placement/placement.hpp"

#include "core/cpp/ops/filter_keys.hpp"

namespace hugectr {

ColumnRange Placement::columns(std::size_t, std::size_t vec_size) const { return {0, vec_size}; }

std::size_t Placement::sum_of_slots(std::size_t rank,
                                    const std::vector<std::size_t>& of_slot) const {
  const SlotOfBucket slot_of = slot_of_bucket(rank);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < slots_of(rank); ++i) {
    sum += of_slot.at(slot_of(static_cast<std::uint32_t>(i)));
  }
  return sum;
}

void Placement::filter_keys(const OpContext& context, std::size_t rank, const SparseTensor& csr,
                            const FilterKeyStorage& own, bool by_slot) const {
  run(context, FilterKeys{.keys = csr.keys,
                          .row_offsets = csr.row_offsets,
                          .own_keys = own.keys,
                          .own_row_offsets = own.row_offsets,
                          .own_places = own.places,
                          .slot_num = static_cast<std::int64_t>(slot_num_),
                          .rank = static_cast<std::int64_t>(rank),
                          .device_count = static_cast<std::int64_t>(device_count_),
                          .by_slot = by_slot});
}

std::unique_ptr<Placement> make_placement(PlacementKind kind, std::size_t slot_num,
                                          std::size_t device_count) {
  return kind == PlacementKind::BySlot ? make_by_slot(slot_num, device_count)
                                       : make_by_key(slot_num, device_count);
}

}  // namespace hugectr
