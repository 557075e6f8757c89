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
  explicit Index(OpRun& o, std::size_t capacity) : on(o), keys(capacity), values(capacity) {
    on(HashClear{.index_keys = on.ref(keys), .index_values = on.ref(values)});
  }
  Numbers get(std::vector<Key> wanted, std::int64_t limit) {
    Numbers rows(wanted.size());
    on(HashGet{.keys = on.ref(wanted),
               .index_keys = on.ref(keys),
               .index_values = on.ref(values),
               .rows = on.ref(rows),
               .first_reserved = on.ref(reserved),
               .row_limit = limit});
    return rows;
  }
  Numbers get_insert(std::vector<Key> wanted, std::vector<Key>& row_keys) {
    Numbers rows(wanted.size());
    on(HashGetInsert{.keys = on.ref(wanted),
                     .index_keys = on.ref(keys),
                     .index_values = on.ref(values),
                     .counter = on.ref(counter),
                     .row_keys = on.ref(row_keys),
                     .rows = on.ref(rows),
                     .first_reserved = on.ref(reserved)});
    return rows;
  }
  OpRun& on;
  std::vector<Key> keys;
  std::vector<std::uint64_t> values;
  std::vector<std::int64_t> counter{0}, reserved{-7};
};

template <class Key>
void fill_to_the_last_place() {
  OpRun on;
  Index<Key> index(on, 64);
  std::vector<Key> row_keys(63);
  std::iota(row_keys.begin(), row_keys.end(), Key{100});
  on(HashInsert{.row_keys = on.ref(row_keys),
                .index_keys = on.ref(index.keys),
                .index_values = on.ref(index.values)});
  Numbers expected(63);
  std::iota(expected.begin(), expected.end(), 0u);
  EXPECT_EQ(index.get(row_keys, 1000), expected);
  EXPECT_EQ(index.get({99, 163}, 1000), (Numbers{kNoRow, kNoRow}));
  EXPECT_EQ(index.get({162, 100}, 62), (Numbers{kNoRow, 0}));
  EXPECT_EQ(index.reserved[0], -1);
}

TEST(HashIndexOps, EveryPlaceCanBeUsed) {
  fill_to_the_last_place<std::uint32_t>();
  fill_to_the_last_place<std::int64_t>();
}

TEST(HashIndexOps, AFullIndexIsAnErrorNotAnEndlessSearch) {
  OpRun on;
  Index<std::int64_t> index(on, 64);
  std::vector<std::int64_t> keys(65), row_keys(100);
  std::iota(keys.begin(), keys.end(), 0);
  EXPECT_THROW(index.get_insert(keys, row_keys), DeviceError);
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
  EXPECT_EQ(index.reserved[0], 1);
  EXPECT_EQ(index.counter[0], 1);
}

TEST(HashIndexOps, RefusesSizesThatAreNoPowerOfTwo) {
  OpRun on;
  Numbers keys(96);
  std::vector<std::uint64_t> values(96);
  EXPECT_THROW(on(HashClear{.index_keys = on.ref(keys), .index_values = on.ref(values)}),
               InvalidArgument);
}

}  // namespace
}  // namespace hugectr::test
