// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/hash_index.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "tests/cpp/ops/op_run.hpp"

/// Concurrency, growth and budgets: tests/cpp/embedding/hash_table_test.cpp.
namespace hugectr::test {
namespace {

template <class Key>
struct Index {
  Index(OpRun& o, std::size_t capacity) : on(o), words(2 * capacity) {
    on(HashClear{.index = index()});
  }
  TensorRef index() { return on.ref(words, {words.size() / 2, 2}); }
  Numbers get(std::vector<Key> wanted, std::int64_t limit) {
    Numbers rows(wanted.size());
    on(HashGet{.keys = on.ref(wanted),
               .index = index(),
               .rows = on.ref(rows),
               .report = on.ref(report),
               .row_limit = limit});
    return rows;
  }
  Numbers get_insert(std::vector<Key> wanted, std::vector<Key>& row_keys) {
    Numbers rows(wanted.size());
    on(HashGetInsert{.keys = on.ref(wanted),
                     .index = index(),
                     .counter = on.ref(counter),
                     .row_keys = on.ref(row_keys),
                     .rows = on.ref(rows),
                     .report = on.ref(report)});
    return rows;
  }
  OpRun& on;
  std::vector<std::uint64_t> words;
  std::vector<std::int64_t> counter{0}, report{-7, -7, -7};
};

template <class Key>
void fill_to_the_last_place() {
  OpRun on;
  Index<Key> index(on, 64);
  std::vector<Key> row_keys(63);
  std::iota(row_keys.begin(), row_keys.end(), Key{100});
  on(HashInsert{
      .row_keys = on.ref(row_keys), .index = index.index(), .report = on.ref(index.report)});
  EXPECT_EQ(index.report[kReportedLost], 0);
  Numbers expected(63);
  std::iota(expected.begin(), expected.end(), 0u);
  EXPECT_EQ(index.get(row_keys, 1000), expected);
  EXPECT_EQ(index.get({99, 163}, 1000), (Numbers{kNoRow, kNoRow}));
  EXPECT_EQ(index.get({162, 100}, 62), (Numbers{kNoRow, 0}));
  EXPECT_EQ(index.report[kReportedReserved], -1);
}

TEST(HashIndexOps, EveryPlaceCanBeUsed) {
  fill_to_the_last_place<std::uint32_t>();
  fill_to_the_last_place<std::int64_t>();
}

TEST(HashIndexOps, AFullIndexLosesKeysAndSaysHowMany) {
  OpRun on;
  Index<std::int64_t> index(on, 64);
  std::vector<std::int64_t> keys(70), row_keys(100, -5);
  std::iota(keys.begin(), keys.end(), 0);
  const Numbers rows = index.get_insert(keys, row_keys);
  EXPECT_EQ(index.report[kReportedLost], 6);
  EXPECT_EQ(index.counter[0], 64);
  std::vector<bool> taken(64, false);
  std::size_t without = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (rows[i] == kNoRow) {
      ++without;
    } else {
      ASSERT_LT(rows[i], 64u);
      EXPECT_FALSE(taken[rows[i]]);
      taken[rows[i]] = true;
      EXPECT_EQ(row_keys[rows[i]], keys[i]);
    }
  }
  EXPECT_EQ(without, 6u);
  EXPECT_EQ(row_keys[64], -5);
  EXPECT_EQ(index.get(keys, 1000), rows) << "the others are found, and the search for these ends";
  index.get_insert({keys[0], keys[1]}, row_keys);
  EXPECT_EQ(index.report[kReportedLost], rows[0] == kNoRow ? 1 : 0) << "counted anew in each call";
}

TEST(HashIndexOps, RowsBeyondTheLimitAreCountedNotWritten) {
  OpRun on;
  Index<std::uint32_t> index(on, 64);
  Numbers row_keys(2, 0);
  const Numbers rows = index.get_insert({5, 6, 7, 5}, row_keys);
  EXPECT_EQ(rows, (Numbers{0, 1, kNoRow, 0}));
  EXPECT_EQ(index.counter[0], 3);
  EXPECT_EQ(row_keys, (Numbers{5, 6}));
}

TEST(HashIndexOps, ReservedKeyIsFound) {
  OpRun on;
  Index<std::uint32_t> index(on, 64);
  Numbers row_keys(10);
  EXPECT_EQ(index.get_insert({1, 0xFFFFFFFFu}, row_keys), (Numbers{0, kNoRow}));
  EXPECT_EQ(index.report[kReportedReserved], 1);
  EXPECT_EQ(index.counter[0], 1);
}

TEST(HashIndexOps, RefusesIndexesOfOtherShapes) {
  OpRun on;
  std::vector<std::uint64_t> words(256);
  EXPECT_THROW(on(HashClear{.index = on.ref(words, {96, 2})}), InvalidArgument);
  EXPECT_THROW(on(HashClear{.index = on.ref(words, {32, 2})}), InvalidArgument);
  EXPECT_THROW(on(HashClear{.index = on.ref(words, {128})}), InvalidArgument);
  on(HashClear{.index = on.ref(words, {128, 2})});
  EXPECT_EQ(words, std::vector<std::uint64_t>(256, kFreePlace));
}

}  // namespace
}  // namespace hugectr::test
