// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/cpp/embedding/reference_table.hpp"

/// Rows that come and go: the same ones on 1, 2 and 3 devices, by either exchange, and what marks
/// know of those that went. Which rows they are is asked in tests/py/model/test_row_lives.py.
namespace hugectr::test {
namespace {

constexpr std::size_t kSamples = 12, kSlots = 4, kDim = 5, kSteps = 11;

RowLife life_of(Eviction evict, std::uint64_t admit_after) {
  RowLife life;
  life.evict = evict;
  life.evict_every = 3;
  life.admit_after = admit_after;
  if (evict == Eviction::Ttl) life.ttl = 4;
  if (evict == Eviction::Lru || evict == Eviction::Lfu) life.max_rows = 40;
  if (evict == Eviction::Lfu) life.decay = 0.7;
  return life;
}

SparseEmbeddingHashParams params(EmbeddingType type, ExchangeType exchange, const RowLife& life) {
  SparseEmbeddingHashParams p;
  p.name = "table";
  p.type = type;
  p.slot_num = kSlots;
  p.embedding_vec_size = kDim;
  p.i64_keys = true;
  p.exchange = exchange;
  p.opt_params.optimizer = Optimizer::AdaGrad;
  p.opt_params.initial_accu_value = 0.25f;
  p.batch_size = p.batch_size_eval = kSamples;
  p.life = life;
  return p;
}

/// Two keys a bucket, some of which are of every batch, others of a window that moves on.
HostBatch batch_of(std::int64_t step) {
  HostBatch batch{{}, {0}};
  for (std::size_t b = 0; b < kSamples * kSlots; ++b) {
    const auto bucket = static_cast<std::int64_t>(b);
    batch.keys.push_back((bucket * 7 + step) % 19);
    batch.keys.push_back(1000 + step * 15 + (bucket * 5 + step * step) % 40);
    batch.row_offsets.push_back(static_cast<std::uint32_t>(batch.keys.size()));
  }
  return batch;
}

/// A table after some steps, with what went and what changed behind the fifth.
struct Lived {
  BufferBag rows, changed;
  RowNames gone;
  TableStats stats;
};

Lived live(const SparseEmbeddingHashParams& p, std::size_t devices) {
  TableRun run(p, devices);
  RowMark mark = 0;
  for (std::int64_t step = 1; step <= static_cast<std::int64_t>(kSteps); ++step) {
    run.train(batch_of(step), random_gradient(kSamples * kSlots * kDim, step), 0.1f, step);
    run.resources().synchronize();
    if (p.life.evicts_after(step)) run.table().evict(step);
    if (step == 5) mark = run.table().mark();
  }
  Lived lived{run.table().dump(true), {}, run.table().gone(mark), run.table().stats()};
  const RowOrder order = run.table().order(mark);
  lived.changed.keys = order.keys;
  lived.changed.slot_ids = order.slot_ids;
  EXPECT_FALSE(run.table().knows_since(mark));
  EXPECT_TRUE(run.table().knows_changes_since(mark));
  return lived;
}

using Case = std::tuple<EmbeddingType, ExchangeType, Eviction, std::uint64_t>;

class RowLives : public ::testing::TestWithParam<Case> {
 protected:
  SparseEmbeddingHashParams p() const {
    const auto [type, exchange, evict, admit_after] = GetParam();
    return params(type, exchange, life_of(evict, admit_after));
  }
};
INSTANTIATE_TEST_SUITE_P(
    All, RowLives,
    ::testing::Combine(::testing::Values(EmbeddingType::DistributedSlotSparseEmbeddingHash,
                                         EmbeddingType::LocalizedSlotSparseEmbeddingHash),
                       ::testing::Values(ExchangeType::Pooled, ExchangeType::Unique),
                       ::testing::Values(Eviction::Lru, Eviction::Lfu, Eviction::Ttl),
                       ::testing::Values(1, 2)));

TEST_P(RowLives, AreTheSameOnAnyDevices) {
  const Lived one = live(p(), 1);
  EXPECT_GT(one.stats.evicted, 0u);
  EXPECT_GT(one.stats.evicted + one.stats.refused, 15u);
  if (p().life.admit_after == 1) {
    EXPECT_EQ(one.stats.refused, 0u);
  }
  for (const std::size_t devices : {2, 3}) {
    const Lived other = live(p(), devices);
    EXPECT_EQ(other.rows.keys, one.rows.keys);
    EXPECT_EQ(other.rows.slot_ids, one.rows.slot_ids);
    EXPECT_EQ(other.rows.scores, one.rows.scores);
    EXPECT_LE(relative_distance(other.rows.vectors, one.rows.vectors), 1e-6);
    EXPECT_LE(relative_distance(other.rows.states[0], one.rows.states[0]), 1e-6);
    EXPECT_EQ(other.gone.keys, one.gone.keys);
    EXPECT_EQ(other.gone.slot_ids, one.gone.slot_ids);
    EXPECT_EQ(other.changed.keys, one.changed.keys);
    EXPECT_EQ(other.stats.admitted, one.stats.admitted);
    EXPECT_EQ(other.stats.refused, one.stats.refused);
    EXPECT_EQ(other.stats.evicted, one.stats.evicted);
  }
}

/// A table that had the rows of the mark, and is told what went and what changed, has all.
TEST_P(RowLives, WhoIsToldWhatWentAndWhatChangedHasTheTable) {
  TableRun run(p(), 2), follower(p(), 3);
  RowMark mark = run.table().mark();
  for (std::int64_t step = 1; step <= static_cast<std::int64_t>(kSteps); ++step) {
    run.train(batch_of(step), random_gradient(kSamples * kSlots * kDim, step), 0.1f, step);
    run.resources().synchronize();
    if (p().life.evicts_after(step)) run.table().evict(step);
    if (step % 4 != 0) continue;
    const RowNames gone = run.table().gone(mark);
    follower.table().erase(gone.keys, gone.slot_ids);
    const RowOrder order = run.table().order(mark);
    BufferBag part = run.table().dump(true), changed;
    changed.vec_size = kDim;
    changed.keys = order.keys;
    changed.slot_ids = order.slot_ids;
    changed.vectors.resize(order.size() * kDim);
    changed.states.emplace_back(order.size() * kDim);
    changed.scores.resize(order.size());
    RowValues values{changed.vectors.data(), {changed.states[0].data()}, nullptr};
    values.scores = changed.scores.data();
    run.table().read(order, 0, order.size(), values);
    follower.table().load(changed);
    mark = run.table().mark();
    const BufferBag found = follower.table().dump(true);
    EXPECT_EQ(found.keys, part.keys);
    EXPECT_EQ(found.slot_ids, part.slot_ids);
    EXPECT_EQ(found.vectors, part.vectors);
    EXPECT_EQ(found.states, part.states);
    EXPECT_EQ(found.scores, part.scores);
  }
}

}  // namespace
}  // namespace hugectr::test
