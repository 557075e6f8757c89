// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/placement/placement.hpp"

namespace hugectr {
namespace {

/// Owner = key % N, whatever the slot. Every device has a share of every bucket. Also of a hybrid
/// the rows that are not frequent, of a batch without the frequent keys.
class ByKey final : public Placement {
 public:
  ByKey(const char* name, std::size_t slot_num, std::size_t device_count)
      : Placement(slot_num, device_count), name_(name) {}

  const char* name() const override { return name_; }
  DeviceRange owners(std::uint64_t widened_key, std::size_t) const override {
    return {static_cast<std::size_t>(owner_of_key(widened_key, device_count_)), 1};
  }
  bool whole_buckets() const override { return device_count_ == 1; }
  std::size_t slots_of(std::size_t) const override { return slot_num_; }
  FilterKeys filter(std::size_t rank, const SparseTensor& csr,
                    const FilterKeyStorage& own) const override {
    return filter_keys(rank, csr, own, false);
  }

 private:
  const char* name_;
};

}  // namespace

std::unique_ptr<Placement> make_by_key(std::size_t slot_num, std::size_t device_count) {
  return std::make_unique<ByKey>("by_key", slot_num, device_count);
}

std::unique_ptr<Placement> make_hybrid(std::size_t slot_num, std::size_t device_count) {
  return std::make_unique<ByKey>("hybrid", slot_num, device_count);
}

}  // namespace hugectr
