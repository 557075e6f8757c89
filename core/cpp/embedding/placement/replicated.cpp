// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/placement/placement.hpp"

namespace hugectr {
namespace {

/// Every device has every row, looks its own samples up and makes the update of every row, by the
/// gradients of all devices: the copies stay the same to the bit. A row that is new on one device
/// is new on all: they tell one another their distinct keys.
class Replicated final : public Placement {
 public:
  using Placement::Placement;

  const char* name() const override { return "replicated"; }
  DeviceRange owners(std::uint64_t, std::size_t) const override { return {0, device_count_}; }
  bool whole_buckets() const override { return true; }
  bool replicated() const override { return true; }
  bool rows_may_travel() const override { return false; }
  bool reads_out(std::size_t rank) const override { return rank == 0; }
  bool takes_all(std::size_t) const override { return true; }
  Interleave interleave(std::size_t vec_size) const override { return {1, vec_size}; }
  std::size_t slots_of(std::size_t) const override { return slot_num_; }
};

}  // namespace

std::unique_ptr<Placement> make_replicated(std::size_t slot_num, std::size_t device_count) {
  return std::make_unique<Replicated>(slot_num, device_count);
}

}  // namespace hugectr
