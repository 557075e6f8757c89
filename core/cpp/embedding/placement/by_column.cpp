// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/placement/placement.hpp"

namespace hugectr {
namespace {

/// Columns are dealt in packs of four: 16 bytes, and what one draw of a new row's content makes.
constexpr std::size_t kPack = 4;

/// Each of K neighbouring devices has d / K columns of every row: K is the largest number of the
/// given devices for which that is a multiple of four, and 1 where d is none. It pools these
/// columns of whole buckets, so that devices have nothing to add up.
class ByColumn final : public Placement {
 public:
  ByColumn(std::size_t slot_num, std::size_t device_count, const Holders& holders)
      : Placement(slot_num, device_count), devices_(holders.devices) {
    HCTR_CHECK(holders.vec_size > 0, "placed by column: the number of columns is not known");
    HCTR_CHECK(devices_.first < device_count, "placed by column: device ", devices_.first,
               " is none of the job's ", device_count, " (0 to ", device_count - 1, ")");
    const std::size_t room = device_count - devices_.first;
    std::size_t most = devices_.count == 0 ? room : std::min(room, devices_.count);
    while (most > 1 && holders.vec_size % (kPack * most) != 0) --most;
    devices_.count = most;
  }

  const char* name() const override { return "by_column"; }
  DeviceRange owners(std::uint64_t, std::size_t) const override { return devices_; }
  ColumnRange columns(std::size_t rank, std::size_t vec_size) const override {
    const std::size_t width = vec_size / devices_.count;
    return {holds(rank) ? (rank - devices_.first) * width : 0, width};
  }
  bool whole_buckets() const override { return true; }
  bool rows_may_travel() const override { return devices_.count == 1; }
  bool reads_out(std::size_t rank) const override { return rank == devices_.first; }
  bool takes_all(std::size_t rank) const override { return holds(rank); }
  Interleave interleave(std::size_t vec_size) const override {
    return {devices_.count, vec_size / devices_.count};
  }
  std::size_t slots_of(std::size_t rank) const override { return holds(rank) ? slot_num_ : 0; }

 private:
  bool holds(std::size_t rank) const {
    return rank >= devices_.first && rank < devices_.first + devices_.count;
  }

  DeviceRange devices_;
};

}  // namespace

std::unique_ptr<Placement> make_by_column(std::size_t slot_num, std::size_t device_count,
                                          const Holders& holders) {
  return std::make_unique<ByColumn>(slot_num, device_count, holders);
}

}  // namespace hugectr
