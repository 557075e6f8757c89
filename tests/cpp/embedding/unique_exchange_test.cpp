// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <tuple>

#include "tests/cpp/embedding/reference_table.hpp"

/// Tables whose distinct rows travel, each once, instead of pooled vectors.
namespace hugectr::test {
namespace {

constexpr std::size_t kSamples = 24, kSlots = 5, kDim = 7;
constexpr std::uint64_t kSeed = 7;
constexpr auto kDistributed = EmbeddingType::DistributedSlotSparseEmbeddingHash;
constexpr auto kLocalized = EmbeddingType::LocalizedSlotSparseEmbeddingHash;

SparseEmbeddingHashParams params_of(EmbeddingType type, Combiner combiner) {
  SparseEmbeddingHashParams p;
  p.name = "table";
  p.type = type;
  p.combiner = combiner;
  p.exchange = ExchangeType::Unique;
  p.slot_num = kSlots;
  p.embedding_vec_size = kDim;
  p.i64_keys = true;
  p.opt_params.optimizer = Optimizer::SGD;
  p.batch_size = p.batch_size_eval = kSamples;
  return p;
}

/// Few keys, which samples share.
HostBatch hot_batch(std::uint64_t seed, std::size_t max_nnz = 4, std::int64_t low = -2) {
  return random_batch(kSamples, kSlots, max_nnz, low, 3, seed);
}

using Setting = std::tuple<EmbeddingType, Combiner, Optimizer, Update, std::size_t>;
class UniqueExchangeMatrix : public ::testing::TestWithParam<Setting> {};

TEST_P(UniqueExchangeMatrix, AgreesWithTheFormulas) {
  const auto [type, combiner, optimizer, update, devices] = GetParam();
  SparseEmbeddingHashParams p = params_of(type, combiner);
  p.opt_params.optimizer = optimizer;
  p.opt_params.update_type = update;
  TableRun run(p, devices, kSeed);
  ReferenceTable reference(p, kSeed);
  constexpr std::int64_t kSteps = 6;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const auto seed = static_cast<std::uint64_t>(step);
    const HostBatch batch = hot_batch(seed, 4, -2 + step);  // new keys in every batch
    const auto gradient = random_gradient(kSamples * kSlots * kDim, 200 + seed);
    reference.insert(batch);
    const std::vector<double> expected = reference.forward(batch);
    const auto output = run.train(batch, gradient, 0.01f, step, 0.125f);
    ASSERT_LE(relative_distance(output, expected), 1e-6) << "step " << step;
    reference.update(batch, gradient, 0.01f, step, 0.125);
  }
  EXPECT_EQ(run.table().stats().unique_plans, static_cast<std::size_t>(kSteps));
  const HostBatch other = hot_batch(77, 4, 1);
  EXPECT_LE(relative_distance(run.evaluate(other), reference.forward(other)), 1e-5);
  expect_rows(run.table().dump(true), reference);
}

INSTANTIATE_TEST_SUITE_P(All, UniqueExchangeMatrix,
                         ::testing::Combine(::testing::Values(kDistributed, kLocalized),
                                            ::testing::Values(Combiner::Sum, Combiner::Mean),
                                            ::testing::Values(Optimizer::SGD, Optimizer::Adam),
                                            ::testing::Values(Update::Local, Update::Global,
                                                              Update::LazyGlobal),
                                            ::testing::Values(2, 3, 8)));

class UniqueExchange : public ::testing::TestWithParam<EmbeddingType> {};
INSTANTIATE_TEST_SUITE_P(All, UniqueExchange, ::testing::Values(kDistributed, kLocalized));

/// float32 vectors are pooled in the order of the keys, as on one device: bit for bit.
TEST_P(UniqueExchange, PoolsAsOneDeviceDoes) {
  const SparseEmbeddingHashParams p = params_of(GetParam(), Combiner::Mean);
  TableRun one(p, 1), many(p, 4);
  for (TableRun* run : {&one, &many}) run->plan(hot_batch(1), PlanSlot::Train0);
  EXPECT_EQ(many.table().stats().unique_plans, 1u);
  EXPECT_EQ(many.forward(PlanSlot::Train0, 3), one.forward(PlanSlot::Train0, 3));
  const auto gradient = random_gradient(kSamples * kSlots * kDim, 3);
  for (TableRun* run : {&one, &many}) run->update(PlanSlot::Train0, gradient, 0.1f, 1, 1.0f, 3);
  EXPECT_LE(relative_distance(many.table().dump(false).vectors, one.table().dump(false).vectors),
            1e-6);
}

/// Rows that stay on their device beside those that travel: the same bits, all steps long.
TEST_P(UniqueExchange, RowsThatStayApartAreTheSame) {
  for (const std::size_t devices : {2, 3, 4}) {
    SparseEmbeddingHashParams p = params_of(GetParam(), Combiner::Mean);
    p.opt_params.optimizer = Optimizer::Adam;
    TableRun together(p, devices, kSeed);
    setenv("HUGECTR_APART_BYTES", "1", 1);
    TableRun apart(p, devices, kSeed);
    unsetenv("HUGECTR_APART_BYTES");
    for (std::int64_t step = 1; step <= 6; ++step) {
      const auto seed = static_cast<std::uint64_t>(step);
      const HostBatch batch = random_batch(kSamples, kSlots, 9, 0, 20 * step, seed);
      const auto gradient = random_gradient(kSamples * kSlots * kDim, 60 + seed);
      EXPECT_EQ(apart.train(batch, gradient, 0.1f, step),
                together.train(batch, gradient, 0.1f, step));
    }
    EXPECT_EQ(apart.table().stats().unique_plans, 6u);
    EXPECT_EQ(apart.table().dump(true).vectors, together.table().dump(true).vectors);
  }
}

/// What moves less is chosen, by the keys of the batch alone.
TEST_P(UniqueExchange, IsChosenWhereItMovesLess) {
  SparseEmbeddingHashParams p = params_of(GetParam(), Combiner::Sum);
  p.exchange = ExchangeType::Auto;
  TableRun run(p, 3);
  // One key in all slots; then so many keys a slot that their sums are less.
  run.plan(random_batch(kSamples, kSlots, 2, 5, 1, 1), PlanSlot::Train0);
  EXPECT_EQ(run.table().stats().unique_plans, 1u);
  run.plan(random_batch(kSamples, kSlots, 20, 100, 100'000, 2), PlanSlot::Train1);
  EXPECT_EQ(run.table().stats().unique_plans, 1u);
  p.exchange = ExchangeType::Pooled;
  TableRun pooled(p, 3);
  pooled.plan(random_batch(kSamples, kSlots, 2, 5, 1, 1), PlanSlot::Train0);
  EXPECT_EQ(pooled.table().stats().unique_plans, 0u);
}

/// Slots of many keys: more rows than buckets, in some steps only. They travel all the same.
TEST_P(UniqueExchange, MakesRoomForMoreRowsThanBuckets) {
  const SparseEmbeddingHashParams p = params_of(GetParam(), Combiner::Sum);
  TableRun run(p, 3, kSeed);
  ReferenceTable reference(p, kSeed);
  constexpr std::int64_t kSteps = 6;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const auto seed = static_cast<std::uint64_t>(step);
    const HostBatch batch =
        step % 2 ? random_batch(kSamples, kSlots, 9 * seed, 0, 5000, seed) : hot_batch(seed);
    const auto gradient = random_gradient(kSamples * kSlots * kDim, 50 + seed);
    reference.insert(batch);
    const std::vector<double> expected = reference.forward(batch);
    ASSERT_LE(relative_distance(run.train(batch, gradient, 0.1f, step), expected), 1e-5);
    reference.update(batch, gradient, 0.1f, step, 1.0);
  }
  EXPECT_EQ(run.table().stats().unique_plans, static_cast<std::size_t>(kSteps));
  EXPECT_LE(relative_distance(run.table().dump(false).vectors, reference.vectors()), 1e-5);
}

/// The same beside the steps before: a plan keeps the room it was made with while the next grows.
TEST_P(UniqueExchange, RoomGrowsBesideSteps) {
  const SparseEmbeddingHashParams p = params_of(GetParam(), Combiner::Mean);
  std::vector<HostBatch> batches;
  std::vector<std::vector<float>> gradients;
  for (std::uint64_t i = 0; i < 8; ++i) {
    batches.push_back(random_batch(kSamples, kSlots, i % 3 == 2 ? 1 : 6 + 8 * i, 0, 50'000, i));
    gradients.push_back(random_gradient(kSamples * kSlots * kDim, 90 + i));
  }
  TableRun ahead(p, 3), in_turn(p, 3);
  const auto found =
      ahead.train_overlapped(batches, gradients, 0.1f, std::chrono::microseconds(300));
  std::vector<float> wanted;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto output =
        in_turn.train(batches[i], gradients[i], 0.1f, static_cast<std::int64_t>(i) + 1);
    wanted.insert(wanted.end(), output.begin(), output.end());
  }
  EXPECT_EQ(ahead.table().stats().unique_plans, batches.size());
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(ahead.table().dump(false).vectors, in_turn.table().dump(false).vectors);
}

/// By bytes alone: rows of slots of several keys that many samples share, on many devices.
TEST(UniqueExchangeByKey, IsChosenForMoreRowsThanBucketsWhereItMovesLess) {
  SparseEmbeddingHashParams p = params_of(kDistributed, Combiner::Sum);
  p.exchange = ExchangeType::Auto;
  p.embedding_vec_size = 64;
  TableRun run(p, 8, kSeed);
  // A device's 15 buckets ask for some 30 rows; their sums would come from 7 devices.
  run.plan(random_batch(kSamples, kSlots, 5, 0, 100'000, 1), PlanSlot::Train0);
  EXPECT_EQ(run.table().stats().unique_plans, 1u);
}

/// Plans made while the steps before them run, with buffers that grow in between.
TEST_P(UniqueExchange, PlansAheadGiveTheSame) {
  const SparseEmbeddingHashParams p = params_of(GetParam(), Combiner::Mean);
  std::vector<HostBatch> batches;
  std::vector<std::vector<float>> gradients;
  for (std::uint64_t i = 0; i < 8; ++i) {
    batches.push_back(hot_batch(i, 1 + i, static_cast<std::int64_t>(i)));
    gradients.push_back(random_gradient(kSamples * kSlots * kDim, 90 + i));
  }
  TableRun ahead(p, 3), in_turn(p, 3);
  const auto found =
      ahead.train_overlapped(batches, gradients, 0.1f, std::chrono::microseconds(300));
  std::vector<float> wanted;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto output =
        in_turn.train(batches[i], gradients[i], 0.1f, static_cast<std::int64_t>(i) + 1);
    wanted.insert(wanted.end(), output.begin(), output.end());
  }
  EXPECT_EQ(ahead.table().stats().unique_plans, batches.size());
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(ahead.table().dump(false).vectors, in_turn.table().dump(false).vectors);
}

/// A plan that one device can not make fails on all, and the next one works.
TEST_P(UniqueExchange, OutlivesAPlanThatFails) {
  const SparseEmbeddingHashParams p = params_of(GetParam(), Combiner::Sum);
  TableRun run(p, 4), twin(p, 4);
  HostBatch bad = hot_batch(1);
  bad.keys[bad.keys.size() / 2] = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(run.plan(bad, PlanSlot::Train0), InvalidArgument);
  const auto gradient = random_gradient(kSamples * kSlots * kDim, 5);
  for (std::int64_t step = 1; step <= 3; ++step) {
    const HostBatch batch = hot_batch(static_cast<std::uint64_t>(step));
    EXPECT_EQ(run.train(batch, gradient, 0.1f, step), twin.train(batch, gradient, 0.1f, step));
  }
  EXPECT_EQ(run.table().dump(false).vectors, twin.table().dump(false).vectors);
}

/// Keys in one slot only, or none at all.
TEST_P(UniqueExchange, BucketsWithoutKeysAreZero) {
  const SparseEmbeddingHashParams p = params_of(GetParam(), Combiner::Mean);
  TableRun run(p, 8, kSeed);
  ReferenceTable reference(p, kSeed);
  HostBatch batch;
  batch.row_offsets.assign(kSamples * kSlots + 1, 0);
  const auto gradient = random_gradient(kSamples * kSlots * kDim, 6);
  EXPECT_EQ(run.train(batch, gradient, 0.1f, 1), std::vector<float>(kSamples * kSlots * kDim));
  EXPECT_EQ(run.table().dump(false).size(), 0u);
  batch.keys = {4, 4};
  for (std::size_t b = 13; b < batch.row_offsets.size(); ++b) batch.row_offsets[b] = 2;
  reference.insert(batch);
  const std::vector<double> expected = reference.forward(batch);
  EXPECT_LE(relative_distance(run.train(batch, gradient, 0.1f, 2), expected), 1e-6);
  reference.update(batch, gradient, 0.1f, 2, 1.0);
  EXPECT_LE(relative_distance(run.table().dump(false).vectors, reference.vectors()), 1e-6);
}

}  // namespace
}  // namespace hugectr::test
