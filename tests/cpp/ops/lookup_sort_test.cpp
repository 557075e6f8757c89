// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/lookup_sort.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/cpp/ops/op_run.hpp"

namespace hugectr::test {
namespace {

void check(std::size_t n, std::uint32_t row_count, std::uint64_t seed) {
  SCOPED_TRACE(concat(n, " keys, ", row_count, " rows"));
  OpRun on;
  std::mt19937_64 random(seed);
  Numbers rows(n), buckets(n);
  for (auto& row : rows) row = static_cast<std::uint32_t>(random() % row_count);
  if (n > 0) rows[n / 2] = row_count - 1;
  for (std::size_t i = 0; i < n; ++i) buckets[i] = static_cast<std::uint32_t>(i / 3);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rows[a] < rows[b]; });
  Numbers sorted_buckets, unique_rows, run_offsets;
  for (std::size_t i = 0; i < n; ++i) {
    if (i == 0 || rows[order[i]] != rows[order[i - 1]]) {
      unique_rows.push_back(rows[order[i]]);
      run_offsets.push_back(static_cast<std::uint32_t>(i));
    }
    sorted_buckets.push_back(buckets[order[i]]);
  }
  run_offsets.push_back(static_cast<std::uint32_t>(n));

  Numbers got_buckets(n + 1), got_rows(n + 1), got_offsets(n + 1);
  std::vector<std::int64_t> count(1);
  std::vector<std::uint64_t> scratch(2 * n + 1);
  on(LookupSort{.rows = on.ref(rows),
                .buckets = on.ref(buckets),
                .sorted_buckets = on.ref(got_buckets),
                .unique_rows = on.ref(got_rows),
                .run_offsets = on.ref(got_offsets),
                .run_count = on.ref(count),
                .scratch = on.ref(scratch),
                .row_count = row_count});
  ASSERT_EQ(static_cast<std::size_t>(count[0]), unique_rows.size());
  got_buckets.resize(n);
  got_rows.resize(unique_rows.size());
  got_offsets.resize(run_offsets.size());
  EXPECT_EQ(got_buckets, sorted_buckets);
  EXPECT_EQ(got_rows, unique_rows);
  EXPECT_EQ(got_offsets, run_offsets);
}

TEST(LookupSortOp, AgreesWithAStableSort) {
  check(0, 1, 1);
  check(1, 1, 2);
  check(1000, 1, 3);
  check(1000, 2, 4);
  check(1000, 2048, 5);
  check(100'000, 700, 6);
  check(100'000, 4'000'000, 7);
  check(70'000, 0xFFFFFFFEu, 8);
}

}  // namespace
}  // namespace hugectr::test
