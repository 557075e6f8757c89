// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/placement/placement.hpp"

namespace hugectr {
namespace {

/// All rows lie on one device, which pools whole buckets of all samples.
class OneDevice final : public Placement {
 public:
  OneDevice(std::size_t slot_num, std::size_t device_count, std::size_t device)
      : Placement(slot_num, device_count), device_(device) {
    HCTR_CHECK(device < device_count, "placed on one device: device ", device,
               " is none of the job's ", device_count, " (0 to ", device_count - 1, ")");
  }

  const char* name() const override { return "one_device"; }
  DeviceRange owners(std::uint64_t, std::size_t) const override { return {device_, 1}; }
  bool whole_buckets() const override { return true; }
  bool reads_out(std::size_t rank) const override { return rank == device_; }
  bool takes_all(std::size_t rank) const override { return rank == device_; }
  Interleave interleave(std::size_t vec_size) const override { return {1, vec_size}; }
  std::size_t slots_of(std::size_t rank) const override { return rank == device_ ? slot_num_ : 0; }

 private:
  std::size_t device_;
};

}  // namespace

std::unique_ptr<Placement> make_one_device(std::size_t slot_num, std::size_t device_count,
                                           const Holders& holders) {
  return std::make_unique<OneDevice>(slot_num, device_count, holders.devices.first);
}

}  // namespace hugectr
