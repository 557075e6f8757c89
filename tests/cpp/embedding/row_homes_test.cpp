// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_homes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/cpp/device/thread_pool.hpp"

/// Rows that lie in any order, put in that of their numbers.
namespace hugectr::test {
namespace {

struct Order {
  const char* name;
  std::size_t rows, dim;
  std::size_t moved;  ///< rows that lie elsewhere at most; 0: all are drawn anew
};

class RowHomes : public ::testing::TestWithParam<Order> {};

TEST_P(RowHomes, ArePutInOrder) {
  const auto [name, n, dim, moved] = GetParam();
  std::mt19937_64 random(n + dim);
  std::vector<std::uint32_t> homes(n);
  std::iota(homes.begin(), homes.end(), 0u);
  if (moved == 0) std::ranges::shuffle(homes, random);
  for (std::size_t i = 0; i < moved; ++i) std::swap(homes[random() % n], homes[random() % n]);
  std::vector<float> vectors(n * dim), states(n);
  std::vector<std::int64_t> steps(n);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t j = 0; j < dim; ++j) {
      vectors[homes[r] * dim + j] = static_cast<float>(r * dim + j);
    }
    states[homes[r]] = -static_cast<float>(r);
    steps[homes[r]] = static_cast<std::int64_t>(r) << 32;
  }
  const RowArrays arrays{make_ref(vectors.data(), {n, dim}),
                         {make_ref(states.data(), {n, 1})},
                         make_ref(steps.data(), {n})};
  ThreadPool pool(2);
  put_in_order(pool, arrays, homes);
  for (std::size_t r = 0; r < n; ++r) {
    ASSERT_EQ(homes[r], r);
    ASSERT_EQ(states[r], -static_cast<float>(r)) << r;
    ASSERT_EQ(steps[r], static_cast<std::int64_t>(r) << 32) << r;
  }
  for (std::size_t i = 0; i < n * dim; ++i) ASSERT_EQ(vectors[i], static_cast<float>(i)) << i;
}

INSTANTIATE_TEST_SUITE_P(Of, RowHomes,
                         ::testing::Values(Order{"None", 0, 3, 0}, Order{"One", 1, 3, 0},
                                           Order{"OneBlock", 777, 5, 0},
                                           Order{"ManyBlocks", 5001, 2048, 0},
                                           Order{"RowsOfManyBlocksThatMovedALittle", 5001, 2048, 9},
                                           Order{"RowsThatAreAtTheirPlaces", 5000, 1, 1}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hugectr::test
