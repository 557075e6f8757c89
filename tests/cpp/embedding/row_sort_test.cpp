// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_sort.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

namespace hugectr::test {
namespace {

using Draw = std::mt19937_64;

/// `n` rows with keys, slots and devices of the given generators, numbered in their order.
template <class Keys, class Slots>
std::vector<RowPlace> rows_of(std::size_t n, const Keys& key, const Slots& slot) {
  std::vector<RowPlace> rows;
  for (std::size_t i = 0; i < n; ++i) {
    rows.push_back(RowPlace::of(key(i), slot(i), i % 3, static_cast<std::uint32_t>(i)));
  }
  return rows;
}

std::uint32_t no_slot(std::size_t) { return 0; }

void check(const std::vector<RowPlace>& rows) {
  std::vector<RowPlace> expected = rows;
  std::stable_sort(expected.begin(), expected.end(), [](const RowPlace& a, const RowPlace& b) {
    return std::tuple(a.slot(), a.key) < std::tuple(b.slot(), b.key);
  });
  for (const std::size_t threads : {1, 3}) {
    ThreadPool pool(threads);
    std::vector<RowPlace> places = rows, scratch(rows.size());
    const RowPlace* found = sort_rows(pool, places.data(), scratch.data(), rows.size());
    ASSERT_TRUE(found == places.data() || found == scratch.data());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(found[i].key, expected[i].key) << "at " << i;
      ASSERT_EQ(found[i].where, expected[i].where) << "at " << i;
    }
  }
}

TEST(RowSort, PlacesKeepTheirFields) {
  const RowPlace place = RowPlace::of(-5, (1u << 24) - 1, 255, 0xfffffffe);
  EXPECT_EQ(place.key, -5);
  EXPECT_EQ(place.slot(), (1u << 24) - 1);
  EXPECT_EQ(place.device(), 255u);
  EXPECT_EQ(place.row(), 0xfffffffe);
}

TEST(RowSort, FewRows) {
  for (const std::size_t n : {0, 1, 2, 3}) {
    check(rows_of(n, [&](std::size_t i) { return static_cast<std::int64_t>(n - i); }, no_slot));
  }
}

TEST(RowSort, RandomKeys) {
  for (const int bits : {1, 7, 8, 9, 33, 63, 64}) {
    Draw draw(bits);
    const std::size_t n = bits == 33 ? 150'001 : 5'003;  // more than one piece, or one
    const auto key = [&](std::size_t) { return static_cast<std::int64_t>(draw() >> (64 - bits)); };
    check(rows_of(n, key, no_slot));
  }
}

TEST(RowSort, EqualKeysKeepTheirOrder) {
  Draw draw(1);
  check(rows_of(100'000, [](std::size_t) { return 7; }, no_slot));
  check(rows_of(
      100'000, [&](std::size_t) { return static_cast<std::int64_t>(draw() % 5); }, no_slot));
}

TEST(RowSort, SortedAndReversed) {
  check(rows_of(100'000, [](std::size_t i) { return static_cast<std::int64_t>(i) * 3; }, no_slot));
  check(rows_of(100'000, [](std::size_t i) { return -static_cast<std::int64_t>(i); }, no_slot));
  // In order but for one place, where two pieces of the loops meet.
  auto rows = rows_of(100'000, [](std::size_t i) { return static_cast<std::int64_t>(i); }, no_slot);
  std::swap(rows[(1 << 15) - 1], rows[1 << 15]);
  check(rows);
}

TEST(RowSort, ExtremeKeys) {
  using Limits = std::numeric_limits<std::int64_t>;
  const std::int64_t keys[] = {Limits::max(),
                               Limits::min(),
                               0,
                               -1,
                               1,
                               Limits::max() - 1,
                               Limits::min() + 1,
                               std::int64_t{1} << 32,
                               -(std::int64_t{1} << 32)};
  Draw draw(2);
  check(rows_of(70'000, [&](std::size_t) { return keys[draw() % std::size(keys)]; }, no_slot));
}

TEST(RowSort, SlotsGoBeforeKeys) {
  Draw draw(3);
  const auto key = [&](std::size_t) { return static_cast<std::int64_t>(draw()) >> 20; };
  check(rows_of(80'000, key, [&](std::size_t) { return static_cast<std::uint32_t>(draw() % 26); }));
  check(
      rows_of(80'000, key, [&](std::size_t) { return static_cast<std::uint32_t>(draw() >> 40); }));
  const auto slot = [](std::size_t i) { return static_cast<std::uint32_t>(80'000 - i); };
  check(rows_of(80'000, [](std::size_t) { return 4; }, slot));
}

}  // namespace
}  // namespace hugectr::test
