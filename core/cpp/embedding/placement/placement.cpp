// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/placement/placement.hpp"

#include <algorithm>
#include <array>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

using Make = std::unique_ptr<Placement> (*)(std::size_t slot_num, std::size_t device_count,
                                            const Holders& holders);

/// Of a placement that slots and devices say all of.
template <std::unique_ptr<Placement> (*make)(std::size_t, std::size_t)>
std::unique_ptr<Placement> plain(std::size_t slot_num, std::size_t device_count, const Holders&) {
  return make(slot_num, device_count);
}

struct Kind {
  PlacementKind kind;
  Make make;
  bool deals_rows;  ///< a rule of its own says where a single row is
};

constexpr std::array kKinds{Kind{PlacementKind::ByKey, &plain<make_by_key>, true},
                            Kind{PlacementKind::BySlot, &plain<make_by_slot>, true},
                            Kind{PlacementKind::OneDevice, &make_one_device, false},
                            Kind{PlacementKind::Replicated, &plain<make_replicated>, false},
                            Kind{PlacementKind::ByColumn, &make_by_column, false},
                            Kind{PlacementKind::Hybrid, &plain<make_hybrid>, true}};

const Kind& entry_of(PlacementKind kind) {
  const auto* const found = std::ranges::find(kKinds, kind, &Kind::kind);
  HCTR_CHECK(found != kKinds.end(), "placement ", static_cast<int>(kind), " has no class");
  return *found;
}

}  // namespace

ColumnRange Placement::columns(std::size_t, std::size_t vec_size) const { return {0, vec_size}; }

bool Placement::takes_all(std::size_t) const { return device_count_ == 1; }

Interleave Placement::interleave(std::size_t vec_size) const { return {device_count_, vec_size}; }

SlotOfBucket Placement::slot_of_bucket(std::size_t) const {
  return {static_cast<std::uint32_t>(slot_num_), 1, 0};
}

FilterKeys Placement::filter(std::size_t rank, const SparseTensor& csr,
                             const FilterKeyStorage& own) const {
  HCTR_CHECK(!takes_all(rank) && slots_of(rank) == 0, name(), ": device ", rank,
             " takes all keys and has none to choose");
  // Of slots that are dealt to one device more than there are slots, the last gets none.
  FilterKeys none = filter_keys(slot_num_, csr, own, true);
  none.device_count = static_cast<std::int64_t>(slot_num_) + 1;
  return none;
}

std::size_t Placement::most_slots() const {
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < device_count_; ++rank) most = std::max(most, slots_of(rank));
  return most;
}

std::size_t Placement::sum_of_slots(std::size_t rank,
                                    const std::vector<std::size_t>& of_slot) const {
  const SlotOfBucket slot_of = slot_of_bucket(rank);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < slots_of(rank); ++i) {
    sum += of_slot.at(slot_of(static_cast<std::uint32_t>(i)));
  }
  return sum;
}

FilterKeys Placement::filter_keys(std::size_t rank, const SparseTensor& csr,
                                  const FilterKeyStorage& own, bool by_slot) const {
  return {.keys = csr.keys,
          .row_offsets = csr.row_offsets,
          .own_keys = own.keys,
          .own_row_offsets = own.row_offsets,
          .own_places = own.places,
          .slot_num = static_cast<std::int64_t>(slot_num_),
          .rank = static_cast<std::int64_t>(rank),
          .device_count = static_cast<std::int64_t>(device_count_),
          .by_slot = by_slot};
}

std::unique_ptr<Placement> make_placement(PlacementKind kind, std::size_t slot_num,
                                          std::size_t device_count, const Holders& holders) {
  return entry_of(kind).make(slot_num, device_count, holders);
}

PlacementKind placement_named(const std::string& name) {
  std::string known;
  for (const Kind& one : kKinds) {
    const std::string its = one.make(1, 1, {{0, 1}, 4})->name();
    if (its == name) return one.kind;
    known += (known.empty() ? "" : ", ") + its;
  }
  throw InvalidArgument(
      concat("placement '", name, "' is unknown, this version has ", known, ": update hugectr"));
}

std::vector<std::uint32_t> row_owners(std::optional<PlacementKind> kind,
                                      std::span<const std::int64_t> keys,
                                      std::span<const std::uint64_t> slots,
                                      std::size_t device_count) {
  HCTR_CHECK(slots.empty() || slots.size() == keys.size(), "rows have ", keys.size(), " keys and ",
             slots.size(), " slots");
  HCTR_CHECK(device_count > 0, "owners of rows: no device");
  const std::size_t slot_num =
      slots.empty() ? 1 : *std::max_element(slots.begin(), slots.end()) + 1;
  const Identity identity = slots.empty() ? Identity::Key : Identity::SlotAndKey;
  const bool deals = kind && entry_of(*kind).deals_rows;
  const auto placement =
      make_placement(deals ? *kind : placement_of(identity), slot_num, device_count);
  std::vector<std::uint32_t> owners(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    // As saved: keys of uint32 were widened without sign already.
    const auto widened = static_cast<std::uint64_t>(keys[i]);
    const DeviceRange range = placement->owners(widened, slots.empty() ? 0 : slots[i]);
    owners[i] = static_cast<std::uint32_t>(range.first);
  }
  return owners;
}

}  // namespace hugectr
