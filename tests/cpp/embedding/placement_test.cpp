// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/placement/placement.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

/// f(placement, slots, devices) for each kind on 1 to 8 devices.
template <class F>
void for_each_placement(const F& f) {
  for (const PlacementKind kind : {PlacementKind::ByKey, PlacementKind::BySlot}) {
    for (std::size_t devices = 1; devices <= 8; ++devices) {
      for (const std::size_t slots : {1, 2, 7, 26}) {
        const auto placement = make_placement(kind, slots, devices);
        SCOPED_TRACE(concat(placement->name(), ", ", devices, " devices, ", slots, " slots"));
        f(*placement, slots, devices);
      }
    }
  }
}

/// Slots of a device, from the buckets of its second sample.
std::set<std::size_t> slots_on(const Placement& placement, std::size_t rank) {
  const std::size_t count = placement.slots_of(rank);
  std::set<std::size_t> slots;
  for (std::size_t i = 0; i < count; ++i) {
    slots.insert(placement.slot_of_bucket(rank)(static_cast<std::uint32_t>(count + i)));
  }
  EXPECT_EQ(slots.size(), count) << "two buckets of a sample are of one slot";
  return slots;
}

TEST(Placement, ARowsOwnerHasABucketOfItsSlotAndWholeBucketsAreNobodyElses) {
  std::mt19937_64 random(std::random_device{}());
  for_each_placement([&](const Placement& placement, std::size_t slots, std::size_t devices) {
    std::vector<std::set<std::size_t>> of_device;
    for (std::size_t r = 0; r < devices; ++r) of_device.push_back(slots_on(placement, r));
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t key = random();
      const std::size_t slot = random() % slots;
      const DeviceRange owners = placement.owners(key, slot);
      ASSERT_EQ(owners.count, 1u);
      ASSERT_LT(owners.first, devices);
      for (std::size_t r = 0; r < devices; ++r) {
        const bool has = of_device[r].count(slot) > 0;
        EXPECT_TRUE(has || r != owners.first) << "key " << key << ", slot " << slot;
        EXPECT_TRUE(!placement.whole_buckets() || has == (r == owners.first)) << "slot " << slot;
      }
    }
  });
}

TEST(Placement, SlotsOfDevicesMakeUpTheTable) {
  for_each_placement([](const Placement& placement, std::size_t slots, std::size_t devices) {
    std::vector<std::size_t> sizes(slots);
    std::iota(sizes.begin(), sizes.end(), 10);
    const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    std::size_t sum = 0;
    for (std::size_t r = 0; r < devices; ++r) {
      EXPECT_LE(placement.slots_of(r), placement.slots_of(0)) << "device 0 has the most";
      sum += placement.sum_of_slots(r, sizes);
      EXPECT_EQ(placement.columns(r, 16).first, 0u);
      EXPECT_EQ(placement.columns(r, 16).count, 16u);
    }
    EXPECT_EQ(sum, placement.whole_buckets() ? all : all * devices);
  });
}

TEST(Placement, EveryRowIsReadOutOnceAndItsColumnsAreThere) {
  std::mt19937_64 random(std::random_device{}());
  using enum PlacementKind;
  for (const PlacementKind kind : {ByKey, BySlot, OneDevice, Replicated, ByColumn, Hybrid}) {
    for (std::size_t devices = 1; devices <= 8; ++devices) {
      for (const std::size_t d : {1, 8, 12, 32}) {
        const std::size_t first = kind == Replicated ? 0 : random() % devices;
        const auto placement = make_placement(kind, 5, devices, {{first, 0}, d});
        SCOPED_TRACE(concat(placement->name(), ", ", devices, " devices from ", first, ", d ", d));
        const DeviceRange owners = placement->owners(random(), random() % 5);
        std::size_t read = 0, columns = 0, next = 0;
        for (std::size_t r = owners.first; r < owners.first + owners.count; ++r) {
          ASSERT_LT(r, devices);
          EXPECT_GT(placement->slots_of(r), 0u);
          read += placement->reads_out(r) ? 1 : 0;
          const ColumnRange own = placement->columns(r, d);
          EXPECT_EQ(own.first, placement->replicated() ? 0 : next);
          next = own.first + own.count;
          columns += own.count;
        }
        EXPECT_EQ(read, 1u);
        EXPECT_TRUE(placement->reads_out(owners.first));
        EXPECT_EQ(columns, placement->replicated() ? devices * d : d);
        EXPECT_EQ(placement->interleave(d).width * (kind == ByColumn ? owners.count : 1), d);
        EXPECT_EQ(placement->rows_may_travel(), owners.count == 1 && !placement->replicated());
      }
    }
  }
  EXPECT_THROW(make_placement(OneDevice, 1, 2, {{2, 0}, 4}), InvalidArgument);
  EXPECT_THROW(make_placement(ByColumn, 1, 2, {{0, 0}, 0}), InvalidArgument);
  EXPECT_EQ(make_placement(ByColumn, 1, 8, {{2, 3}, 16})->owners(0, 0).count, 2u);
}

TEST(Placement, NamesAreThoseOfManifests) {
  EXPECT_EQ(placement_named("by_key"), PlacementKind::ByKey);
  EXPECT_EQ(placement_named("by_slot"), PlacementKind::BySlot);
  EXPECT_STREQ(make_placement(PlacementKind::ByKey, 3, 2)->name(), "by_key");
  EXPECT_STREQ(make_placement(PlacementKind::BySlot, 3, 2)->name(), "by_slot");
  try {
    placement_named("by_moon");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("by_moon"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("by_key, by_slot"), std::string::npos);
  }
}

TEST(Placement, RowsOutsideOfAModel) {
  const std::vector<std::int64_t> keys{0, 1, 2, 5, 6};
  const std::vector<std::uint64_t> slots{0, 1, 2, 0, 1};
  using Owners = std::vector<std::uint32_t>;
  EXPECT_EQ(row_owners(PlacementKind::ByKey, keys, {}, 3), (Owners{0, 1, 2, 2, 0}));
  EXPECT_EQ(row_owners(std::nullopt, keys, {}, 3), (Owners{0, 1, 2, 2, 0}));
  EXPECT_EQ(row_owners(std::nullopt, keys, slots, 2), (Owners{0, 1, 0, 0, 1}));
  // Placements that do not deal rows leave that to the table's identity.
  for (const PlacementKind kind :
       {PlacementKind::OneDevice, PlacementKind::Replicated, PlacementKind::ByColumn}) {
    EXPECT_EQ(row_owners(kind, keys, {}, 3), (Owners{0, 1, 2, 2, 0}));
    EXPECT_EQ(row_owners(kind, keys, slots, 2), (Owners{0, 1, 0, 0, 1}));
  }
  EXPECT_THROW(row_owners(std::nullopt, keys, std::span(slots).first(2), 2), InvalidArgument);
  EXPECT_THROW(row_owners(std::nullopt, keys, slots, 0), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
