// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/placement/placement.hpp"

namespace hugectr {
namespace {

/// Owner = slot % N. A slot's buckets lie whole on its device.
class BySlot final : public Placement {
 public:
  using Placement::Placement;

  const char* name() const override { return "by_slot"; }
  DeviceRange owners(std::uint64_t, std::size_t slot) const override {
    return {owner_of_slot(slot, device_count_), 1};
  }
  bool whole_buckets() const override { return true; }
  std::size_t slots_of(std::size_t rank) const override {
    return slots_of_device(slot_num_, rank, device_count_);
  }
  SlotOfBucket slot_of_bucket(std::size_t rank) const override {
    return {static_cast<std::uint32_t>(slots_of(rank)), static_cast<std::uint32_t>(device_count_),
            static_cast<std::uint32_t>(rank)};
  }
  FilterKeys filter(std::size_t rank, const SparseTensor& csr,
                    const FilterKeyStorage& own) const override {
    return filter_keys(rank, csr, own, true);
  }
};

}  // namespace

std::unique_ptr<Placement> make_by_slot(std::size_t slot_num, std::size_t device_count) {
  return std::make_unique<BySlot>(slot_num, device_count);
}

}  // namespace hugectr
