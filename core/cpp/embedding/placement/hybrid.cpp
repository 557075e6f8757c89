// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/placement/placement.hpp"

namespace hugectr {
namespace {

/// Rows of the frequent keys of a hybrid (the others are by key: by_key.cpp): on every device, of
/// all keys of the batch those that are frequent.
class Frequent final : public Placement {
 public:
  using Placement::Placement;

  const char* name() const override { return "hybrid"; }
  DeviceRange owners(std::uint64_t, std::size_t) const override { return {0, device_count_}; }
  bool whole_buckets() const override { return false; }
  bool replicated() const override { return true; }
  bool reads_out(std::size_t rank) const override { return rank == 0; }
  bool rows_may_travel() const override { return false; }
  bool takes_all(std::size_t) const override { return false; }
  Interleave interleave(std::size_t vec_size) const override { return {1, vec_size}; }
  std::size_t slots_of(std::size_t) const override { return slot_num_; }
  FilterKeys filter(std::size_t, const SparseTensor& csr,
                    const FilterKeyStorage& own) const override {
    FilterKeys filter = filter_keys(0, csr, own, false);
    filter.device_count = 1;
    filter.held = own.held;
    filter.keep_held = true;
    return filter;
  }
};

}  // namespace

std::unique_ptr<Placement> make_frequent(std::size_t slot_num, std::size_t device_count) {
  return std::make_unique<Frequent>(slot_num, device_count);
}

}  // namespace hugectr
