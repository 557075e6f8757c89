// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/embedding_init.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/cpp/ops/op_run.hpp"

namespace hugectr::test {
namespace {

constexpr std::size_t kDim = 6;

struct Table {
  Floats weights = Floats(4 * kDim, 9.0f), state = Floats(4 * kDim, 9.0f);
  std::vector<std::int64_t> last_step = std::vector<std::int64_t>(4, 9);
};

template <class Key>
Table init(std::vector<Key> keys, Numbers slots, std::uint64_t seed, std::uint64_t table,
           std::int64_t first = 0, std::int64_t count = 4) {
  OpRun on;
  Table t;
  on(EmbeddingInit{
      .row_keys = on.ref(keys),
      .row_slots = slots.empty() ? TensorRef{} : on.ref(slots),
      .weights = on.ref(t.weights, {4, kDim}),
      .last_step = on.ref(t.last_step),
      .states = {on.ref(t.state, {4, kDim})},
      .first = first,
      .count = count,
      .seed = seed,
      .table = table,
      .bounds = slots.empty() ? std::vector<double>{0.05} : std::vector<double>{0.05, 0.5, 0.01},
      .initial_states = {0.25}});
  return t;
}

Floats row(const Floats& rows, std::size_t r) {
  return {rows.begin() + static_cast<std::ptrdiff_t>(r * kDim),
          rows.begin() + static_cast<std::ptrdiff_t>((r + 1) * kDim)};
}

TEST(EmbeddingInitOp, ContentDependsOnKeySlotTableAndSeedOnly) {
  const Table a = init<std::int64_t>({10, 20, -3, 40}, {}, 5, 1);
  const Table b = init<std::int64_t>({40, -3, 20, 10}, {}, 5, 1);
  for (std::size_t r = 0; r < 4; ++r) EXPECT_EQ(row(a.weights, r), row(b.weights, 3 - r));
  const Table narrow = init<std::uint32_t>({10, 20, 30, 40}, {}, 5, 1);
  EXPECT_EQ(row(narrow.weights, 0), row(a.weights, 0)) << "keys count widened";
  EXPECT_NE(init<std::int64_t>({10, 20, -3, 40}, {}, 6, 1).weights, a.weights) << "seed";
  EXPECT_NE(init<std::int64_t>({10, 20, -3, 40}, {}, 5, 2).weights, a.weights) << "table";
  const Table slots = init<std::int64_t>({10, 10, 10, 10}, {0, 1, 2, 0}, 5, 1);
  EXPECT_EQ(row(slots.weights, 0), row(a.weights, 0)) << "no slot is slot 0";
  EXPECT_EQ(row(slots.weights, 0), row(slots.weights, 3));
  EXPECT_NE(row(slots.weights, 0), row(slots.weights, 1));
}

TEST(EmbeddingInitOp, KeepsBoundsAndTouchesOnlyItsRows) {
  const Table t = init<std::int64_t>({1, 2, 3, 4}, {0, 1, 2, 1}, 5, 1, 1, 2);
  EXPECT_EQ(row(t.weights, 0), Floats(kDim, 9.0f));
  EXPECT_EQ(row(t.weights, 3), Floats(kDim, 9.0f));
  EXPECT_EQ(t.last_step, (std::vector<std::int64_t>{9, 1, 1, 9}));
  EXPECT_EQ(row(t.state, 1), Floats(kDim, 0.25f));
  float widest = 0;
  for (const float w : row(t.weights, 1)) widest = std::max(widest, std::abs(w));
  EXPECT_LE(widest, 0.5f);
  EXPECT_GT(widest, 0.05f);
  for (const float w : row(t.weights, 2)) EXPECT_LE(std::abs(w), 0.01f);
}

}  // namespace
}  // namespace hugectr::test
