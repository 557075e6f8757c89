// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/filter_keys.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/cpp/ops/op_run.hpp"

namespace hugectr::test {
namespace {

constexpr std::size_t kSlots = 7;

template <class Key>
void check(bool by_slot, std::int64_t devices) {
  OpRun on;
  std::mt19937_64 random(11);
  std::vector<Key> keys;
  Numbers offsets{0};
  for (std::size_t bucket = 0; bucket < 1500 * kSlots; ++bucket) {  // several pieces
    for (std::size_t i = random() % 4; i > 0; --i) keys.push_back(static_cast<Key>(random()));
    offsets.push_back(static_cast<std::uint32_t>(keys.size()));
  }
  std::size_t kept = 0;
  for (std::int64_t rank = 0; rank < devices; ++rank) {
    std::vector<Key> expected;
    Numbers expected_offsets{0};
    for (std::size_t bucket = 0; bucket + 1 < offsets.size(); ++bucket) {
      const auto slot = static_cast<std::int64_t>(bucket % kSlots);
      if (by_slot && slot % devices != rank) continue;
      for (std::uint32_t i = offsets[bucket]; i < offsets[bucket + 1]; ++i) {
        // uint32 keys widen without sign, int64 keys count as their bit pattern.
        const auto wide = static_cast<std::uint64_t>(keys[i]);
        if (by_slot ||
            wide % static_cast<std::uint64_t>(devices) == static_cast<std::uint64_t>(rank)) {
          expected.push_back(keys[i]);
        }
      }
      expected_offsets.push_back(static_cast<std::uint32_t>(expected.size()));
    }
    std::vector<Key> own(keys.size());
    Numbers own_offsets(expected_offsets.size(), 77);
    on(FilterKeys{.keys = on.ref(keys),
                  .row_offsets = on.ref(offsets),
                  .own_keys = on.ref(own),
                  .own_row_offsets = on.ref(own_offsets),
                  .slot_num = kSlots,
                  .rank = rank,
                  .device_count = devices,
                  .by_slot = by_slot});
    EXPECT_EQ(own_offsets, expected_offsets);
    own.resize(expected.size());
    EXPECT_EQ(own, expected);
    kept += expected.size();
  }
  EXPECT_EQ(kept, keys.size()) << "every key has one owner";
}

TEST(FilterKeysOp, EveryKeyGoesToItsOwner) {
  for (const std::int64_t devices : {1, 2, 3, 4, 9}) {
    for (const bool by_slot : {false, true}) {
      SCOPED_TRACE(concat(devices, " devices, by slot ", by_slot));
      check<std::uint32_t>(by_slot, devices);
      check<std::int64_t>(by_slot, devices);
    }
  }
}

TEST(FilterKeysOp, RefusesARankThatIsNotThere) {
  OpRun on;
  Numbers keys{1}, offsets{0, 1}, own(1), own_offsets(2);
  EXPECT_THROW(on(FilterKeys{.keys = on.ref(keys),
                             .row_offsets = on.ref(offsets),
                             .own_keys = on.ref(own),
                             .own_row_offsets = on.ref(own_offsets),
                             .rank = 2,
                             .device_count = 2}),
               InvalidArgument);
}

}  // namespace
}  // namespace hugectr::test
