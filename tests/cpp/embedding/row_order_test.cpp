// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/cpp/base/error.hpp"
#include "tests/cpp/embedding/table_run.hpp"

namespace hugectr::test {
namespace {

SparseEmbeddingHashParams params_of(EmbeddingType type, Update update = Update::Local) {
  SparseEmbeddingHashParams params;
  params.name = "table";
  params.type = type;
  params.slot_num = 3;
  params.embedding_vec_size = 5;
  params.i64_keys = true;
  params.batch_size = params.batch_size_eval = 12;
  params.opt_params.optimizer = Optimizer::Adam;
  params.opt_params.update_type = update;
  return params;
}

void train(TableRun& run, std::uint64_t seed, std::int64_t low, std::int64_t step) {
  const HostBatch batch = random_batch(12, 3, 3, low, 20, seed);
  run.train(batch, random_gradient(12 * 3 * 5, seed), 0.1f, step);
}

using Identity = std::pair<std::uint64_t, std::int64_t>;

std::vector<Identity> identities(const RowOrder& order) {
  std::vector<Identity> found;
  for (std::size_t i = 0; i < order.size(); ++i) {
    found.emplace_back(order.slot_ids.empty() ? 0 : order.slot_ids[i], order.keys[i]);
  }
  return found;
}

class RowOrderOf : public testing::TestWithParam<EmbeddingType> {};

TEST_P(RowOrderOf, PartsMakeTheDump) {
  TableRun run(params_of(GetParam()), 2);
  for (int step = 1; step < 5; ++step) train(run, step, 0, step);
  const BufferBag whole = run.table().dump(true);
  const RowOrder order = run.table().order(0);
  ASSERT_EQ(order.keys, whole.keys);
  EXPECT_EQ(order.slot_ids, whole.slot_ids);
  const std::vector<Identity> sorted = identities(order);
  EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
  std::vector<float> vectors(whole.vectors.size()), m(vectors.size()), v(vectors.size());
  for (std::size_t begin = 0; begin < order.size(); begin += 7) {
    const std::size_t end = std::min(begin + 7, order.size()), at = begin * 5;
    run.table().read(order, begin, end, {vectors.data() + at, {m.data() + at, v.data() + at}});
  }
  EXPECT_EQ(vectors, whole.vectors);
  EXPECT_EQ(m, whole.states[0]);
  EXPECT_EQ(v, whole.states[1]);
}

TEST_P(RowOrderOf, SinceAMarkItHasTheRowsThatChangedAndNoOthers) {
  TableRun run(params_of(GetParam()), 3);
  for (int step = 1; step < 4; ++step) train(run, step, 0, step);
  EXPECT_FALSE(run.table().knows_since(1));
  const RowMark mark = run.table().mark();
  EXPECT_TRUE(run.table().knows_since(mark));
  EXPECT_EQ(run.table().order(mark).size(), 0u);
  const BufferBag before = run.table().dump(true);
  train(run, 9, 10, 4);  // some known keys, some new ones
  train(run, 10, 15, 5);
  const BufferBag after = run.table().dump(true);
  const auto known = identities({.keys = before.keys, .slot_ids = before.slot_ids});
  std::vector<Identity> changed;
  const auto all = identities({.keys = after.keys, .slot_ids = after.slot_ids});
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto found = std::lower_bound(known.begin(), known.end(), all[i]);
    const auto row = [&](const std::vector<float>& values, std::size_t at) {
      return std::vector<float>(values.begin() + at * 5, values.begin() + (at + 1) * 5);
    };
    const bool old = found != known.end() && *found == all[i];
    if (!old || row(before.vectors, found - known.begin()) != row(after.vectors, i)) {
      changed.push_back(all[i]);
    }
  }
  EXPECT_EQ(identities(run.table().order(mark)), changed);
  EXPECT_LT(changed.size(), all.size());
  const RowMark later = run.table().mark();
  EXPECT_EQ(run.table().order(later).size(), 0u);
  EXPECT_EQ(identities(run.table().order(mark)), changed);  // an older mark stays good

  BufferBag one;
  one.vec_size = 5;
  one.keys = {all.back().second};
  if (!after.slot_ids.empty()) one.slot_ids = {all.back().first};
  one.vectors.assign(5, 1.0f);
  run.table().load(one);
  EXPECT_EQ(identities(run.table().order(later)), std::vector<Identity>{all.back()});
}

TEST_P(RowOrderOf, AnUpdateOfAllRowsTouchesAllRows) {
  TableRun run(params_of(GetParam(), Update::Global), 2);
  for (int step = 1; step < 4; ++step) train(run, step, 0, step);
  const RowMark mark = run.table().mark();
  train(run, 9, 100, 4);
  EXPECT_EQ(run.table().order(mark).size(), run.table().dump(false).size());
}

TEST_P(RowOrderOf, AFrozenTableChangesByNewRowsOnly) {
  TableRun run(params_of(GetParam()), 2);
  train(run, 1, 0, 1);
  const std::size_t before = run.table().dump(false).size();
  const RowMark mark = run.table().mark();
  run.table().freeze();
  train(run, 2, 10, 2);
  EXPECT_EQ(run.table().order(mark).size(), run.table().dump(false).size() - before);
  EXPECT_GT(run.table().dump(false).size(), before);
}

TEST_P(RowOrderOf, ForgottenRowsEndWhatAMarkKnows) {
  TableRun run(params_of(GetParam()), 2);
  train(run, 1, 0, 1);
  const RowMark mark = run.table().mark();
  const RowOrder stale = run.table().order(0);
  run.table().reset();
  EXPECT_FALSE(run.table().knows_since(mark));
  EXPECT_THROW(run.table().order(mark), InvalidArgument);
  std::vector<float> vectors(stale.size() * 5);
  EXPECT_THROW(run.table().read(stale, 0, stale.size(), {vectors.data(), {}}), InvalidArgument);
  EXPECT_TRUE(run.table().knows_since(run.table().mark()));
}

TEST_P(RowOrderOf, AnotherTablesOrderIsRefused) {
  TableRun run(params_of(GetParam()), 2), other(params_of(GetParam()), 2);
  train(run, 1, 0, 1);
  train(other, 1, 0, 1);  // the same rows in the same places
  const RowOrder order = run.table().order(0);
  std::vector<float> vectors(order.size() * 5);
  run.table().read(order, 0, order.size(), {vectors.data(), {}});
  EXPECT_THROW(other.table().read(order, 0, order.size(), {vectors.data(), {}}), InvalidArgument);
  EXPECT_THROW(run.table().read({}, 0, 0, {}), InvalidArgument);  // of no table
}

INSTANTIATE_TEST_SUITE_P(Embedding, RowOrderOf,
                         testing::Values(EmbeddingType::DistributedSlotSparseEmbeddingHash,
                                         EmbeddingType::LocalizedSlotSparseEmbeddingHash));

TEST(RowProcesses, AreAskedWithWhatDecidesThem) {
  auto params = params_of(EmbeddingType::DistributedSlotSparseEmbeddingHash);
  TableRun by_key(params, 3);
  EXPECT_EQ(by_key.table().row_processes({0, 1, -2}, {}), (std::vector<std::uint32_t>{0, 0, 0}));
  params.type = EmbeddingType::LocalizedSlotSparseEmbeddingHash;
  TableRun by_slot(params, 3);
  EXPECT_EQ(by_slot.table().row_processes({7, 7}, {2, 1}), (std::vector<std::uint32_t>{0, 0}));
  EXPECT_THROW(by_slot.table().row_processes({7}, {}), InvalidArgument);
  EXPECT_THROW(by_slot.table().row_processes({7}, {3}), InvalidArgument);
}

}  // namespace
}  // namespace hugectr::test
