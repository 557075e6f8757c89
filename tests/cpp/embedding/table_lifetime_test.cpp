// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/cpp/embedding/reference_table.hpp"

/// Budgets, plans made ahead, freezing, dump and load, repeatability.
namespace hugectr::test {
namespace {

constexpr std::size_t kSamples = 12, kSlots = 4, kDim = 5;
constexpr auto kDistributed = EmbeddingType::DistributedSlotSparseEmbeddingHash;
constexpr auto kLocalized = EmbeddingType::LocalizedSlotSparseEmbeddingHash;

SparseEmbeddingHashParams params(EmbeddingType type, bool i64 = true) {
  SparseEmbeddingHashParams p;
  p.name = "sparse_embedding1";
  p.type = type;
  p.slot_num = kSlots;
  p.embedding_vec_size = kDim;
  p.i64_keys = i64;
  p.opt_params.update_type = Update::Local;
  p.batch_size = p.batch_size_eval = kSamples;
  return p;
}

/// One key a bucket: first, first + 1, ...
HostBatch one_hot(std::int64_t first, std::size_t buckets = kSamples * kSlots) {
  HostBatch batch;
  batch.row_offsets.push_back(0);
  for (std::size_t b = 0; b < buckets; ++b) {
    batch.keys.push_back(first + static_cast<std::int64_t>(b));
    batch.row_offsets.push_back(static_cast<std::uint32_t>(b + 1));
  }
  return batch;
}

std::vector<float> gradient(std::uint64_t seed) {
  return random_gradient(kSamples * kSlots * kDim, seed);
}

bool all_zero(const std::vector<float>& v) {
  return std::all_of(v.begin(), v.end(), [](float x) { return x == 0.0f; });
}

void expect_same(const BufferBag& a, const BufferBag& b) {
  EXPECT_EQ(a.keys, b.keys);
  EXPECT_EQ(a.slot_ids, b.slot_ids);
  EXPECT_EQ(a.vectors, b.vectors);
  EXPECT_EQ(a.states, b.states);
  EXPECT_EQ(a.last_step, b.last_step);
}

template <class E, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

class EmbeddingTypes : public ::testing::TestWithParam<std::tuple<EmbeddingType, std::size_t>> {
 protected:
  EmbeddingType type() const { return std::get<0>(GetParam()); }
  std::size_t devices() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, EmbeddingTypes,
                         ::testing::Combine(::testing::Values(kDistributed, kLocalized),
                                            ::testing::Values(1, 2, 3, 6)));

TEST_P(EmbeddingTypes, AFullBudgetChangesNothingAndTrainingGoesOn) {
  SparseEmbeddingHashParams p = params(type());
  p.max_vocabulary_size_per_gpu = 48;
  TableRun run(p, devices()), twin(p, devices());
  for (TableRun* r : {&run, &twin}) r->train(one_hot(0), gradient(1), 0.01f, 1);
  const BufferBag before = run.table().dump(true);
  EXPECT_EQ(before.size(), 48u);
  HostBatch many = one_hot(0, kSamples * kSlots);
  for (std::size_t b = 0; b < many.row_offsets.size(); ++b) {
    many.row_offsets[b] = static_cast<std::uint32_t>(b * 20);
  }
  many.keys.clear();
  for (int i = 0; i < 48 * 20; ++i) many.keys.push_back(1000 + i);
  const std::string message = message_of<OutOfMemory>([&] { run.plan(many, PlanSlot::Train1); });
  EXPECT_NE(message.find("sparse_embedding1"), std::string::npos) << message;
  EXPECT_NE(message.find("cpu:"), std::string::npos) << message;
  EXPECT_NE(message.find("may have 48"), std::string::npos) << message;
  EXPECT_NE(message.find("workspace_size_per_gpu_in_mb"), std::string::npos) << message;
  run.group().drop_plan(PlanSlot::Train1);
  expect_same(run.table().dump(true), before);
  EXPECT_TRUE(all_zero(run.evaluate(one_hot(1000))));
  for (TableRun* r : {&run, &twin}) r->train(one_hot(0), gradient(2), 0.01f, 2);
  expect_same(run.table().dump(true), twin.table().dump(true));
}

TEST_P(EmbeddingTypes, RowsOfAPlannedBatchAreInvisibleUntilItTrains) {
  TableRun run(params(type()), devices());
  run.train(one_hot(0), gradient(1), 0.01f, 1);
  run.plan(one_hot(500), PlanSlot::Train0);  // one ahead, not trained
  EXPECT_TRUE(all_zero(run.evaluate(one_hot(500))));
  EXPECT_FALSE(all_zero(run.evaluate(one_hot(0))));
  EXPECT_EQ(run.table().dump(false).size(), 48u);
  EXPECT_EQ(run.table().stats().rows, 48u);
  const std::vector<float> output = run.forward(PlanSlot::Train0);
  EXPECT_FALSE(all_zero(output));
  run.update(PlanSlot::Train0, std::vector<float>(kSamples * kSlots * kDim), 0.01f, 2);
  EXPECT_EQ(run.evaluate(one_hot(500)), output);
  EXPECT_EQ(run.table().stats().rows, 96u);
}

TEST_P(EmbeddingTypes, PlanningAheadDoesNotChangeTheResult) {
  SparseEmbeddingHashParams p = params(type());
  p.opt_params.update_type = Update::Global;
  TableRun ahead(p, devices()), in_turn(p, devices());
  const auto batch = [](int i) { return random_batch(kSamples, kSlots, 3, -20, 60 + 9 * i, i); };
  ahead.plan(batch(1), PlanSlot::Train1);
  for (int step = 1; step <= 6; ++step) {
    const PlanSlot now = step % 2 ? PlanSlot::Train1 : PlanSlot::Train0;
    const PlanSlot next = step % 2 ? PlanSlot::Train0 : PlanSlot::Train1;
    const auto first = ahead.forward(now);
    ahead.plan(batch(step + 1), next);
    ahead.update(now, gradient(step), 0.01f, step);
    EXPECT_EQ(first, in_turn.train(batch(step), gradient(step), 0.01f, step));
  }
  const BufferBag rows = in_turn.table().dump(true);
  expect_same(ahead.table().dump(true), rows);
  ahead.group().drop_plan(PlanSlot::Train1);
  expect_same(ahead.table().dump(true), rows);
  EXPECT_EQ(ahead.table().stats().rows, in_turn.table().stats().rows);
}

TEST_P(EmbeddingTypes, OverlappedPlansAgreeWithStepsInTurnUnderRandomDelays) {
  SparseEmbeddingHashParams p = params(type());
  p.opt_params.update_type = Update::Global;  // sweeps right up to the rows of the next plan
  std::vector<HostBatch> batches;
  std::vector<std::vector<float>> gradients;
  std::vector<float> expected;
  TableRun in_turn(p, devices());
  for (int step = 1; step <= 8; ++step) {
    // Keys grow, so that index and rows grow under way; batches first grow, so that plan buffers
    // do, then shrink, so that only events keep a plan off the buffers that still train.
    const int nnz = step <= 4 ? 8 * step : 40 - 4 * step;
    batches.push_back(random_batch(kSamples, kSlots, nnz, 0, 300 * step, step));
    gradients.push_back(gradient(step));
    const auto output = in_turn.train(batches.back(), gradients.back(), 0.01f, step);
    expected.insert(expected.end(), output.begin(), output.end());
  }
  for (const char* const delay : {"0", "200"}) {
    setenv("HUGECTR_STREAM_DELAY_US", delay, 1);
    TableRun run(p, devices());
    const std::chrono::microseconds lag(delay[0] == '0' ? 4000 : 0);
    EXPECT_EQ(run.train_overlapped(batches, gradients, 0.01f, lag), expected);
    unsetenv("HUGECTR_STREAM_DELAY_US");
    expect_same(run.table().dump(true), in_turn.table().dump(true));
  }
}

TEST_P(EmbeddingTypes, ADroppedPlanGivesItsRowsBack) {
  SparseEmbeddingHashParams p = params(type());
  p.max_vocabulary_size_per_gpu = 96;
  TableRun run(p, devices());
  run.train(one_hot(0), gradient(1), 0.01f, 1);
  for (int i = 0; i < 5; ++i) {
    run.plan(one_hot(1000 * (i + 1)), PlanSlot::Train0);  // would fill the budget in the end
    run.group().drop_plan(PlanSlot::Train0);
    const TensorRef none;
    EXPECT_THROW(run.group().forward(0, PlanSlot::Train0, {&none, 1}), InvalidArgument);
  }
  run.train(one_hot(48), gradient(2), 0.01f, 3);
  EXPECT_EQ(run.table().stats().rows, 96u);
}

TEST_P(EmbeddingTypes, TheReservedKeyIsNamedWithItsPlace) {
  for (const bool i64 : {true, false}) {
    TableRun run(params(type(), i64), devices());
    run.train(one_hot(0), gradient(1), 0.01f, 1);
    const BufferBag before = run.table().dump(true);
    HostBatch batch = one_hot(100);
    batch.keys[5 * kSlots + 2] = i64 ? std::numeric_limits<std::int64_t>::max() : 0xFFFFFFFFll;
    for (const PlanSlot slot : {PlanSlot::Eval, PlanSlot::Train0}) {
      const std::string message = message_of<InvalidArgument>([&] { run.plan(batch, slot); });
      EXPECT_NE(message.find("sample 5, slot 2"), std::string::npos) << message;
      EXPECT_NE(message.find("sparse_embedding1"), std::string::npos) << message;
    }
    run.group().drop_plan(PlanSlot::Train0);
    expect_same(run.table().dump(true), before);
  }
}

TEST_P(EmbeddingTypes, FrozenTablesDoNotChangeButShowNewRows) {
  TableRun run(params(type()), devices());
  run.train(one_hot(0), gradient(1), 0.01f, 1);
  run.table().freeze();
  EXPECT_FALSE(run.table().is_trainable());
  const std::vector<float> first = run.train(one_hot(24), gradient(2), 0.01f, 2);
  EXPECT_EQ(run.evaluate(one_hot(24)), first);
  run.table().unfreeze();
  run.train(one_hot(24), gradient(2), 0.01f, 3);
  EXPECT_NE(run.evaluate(one_hot(24)), first);
}

TEST_P(EmbeddingTypes, DumpsLoadOnAnyDeviceCountAndTrainOn) {
  SparseEmbeddingHashParams p = params(type());
  p.opt_params.update_type = Update::LazyGlobal;
  TableRun source(p, devices());
  const auto batch = [](int i) { return random_batch(kSamples, kSlots, 3, -20, 60, i); };
  for (int step = 1; step <= 4; ++step) source.train(batch(step), gradient(step), 0.01f, step);
  const BufferBag rows = source.table().dump(true);
  source.train(batch(9), gradient(9), 0.01f, 5);
  for (const std::size_t count : {1, 2, 4}) {
    TableRun target(p, count, 99);
    target.train(random_batch(kSamples, kSlots, 3, -20, 10, 3), gradient(8), 0.1f, 1);
    target.table().reset();
    target.table().load(rows);
    expect_same(target.table().dump(true), rows);
    target.train(batch(9), gradient(9), 0.01f, 5);
    const BufferBag after = target.table().dump(true), wanted = source.table().dump(true);
    // Rows that were new in the last batch start from another seed.
    std::size_t known = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      const auto at = [&](const BufferBag& bag) {
        return std::vector<float>(
            bag.vectors.begin() + static_cast<std::ptrdiff_t>(i * kDim),
            bag.vectors.begin() + static_cast<std::ptrdiff_t>((i + 1) * kDim));
      };
      known += relative_distance(at(after), at(wanted)) <= 1e-5;
    }
    EXPECT_EQ(after.keys, wanted.keys);
    EXPECT_GE(known, rows.size());
  }
}

TEST_P(EmbeddingTypes, RunsRepeatBitForBitAlsoUnderRandomDelays) {
  SparseEmbeddingHashParams p = params(type());
  p.opt_params.update_type = Update::Global;
  p.combiner = Combiner::Mean;
  const auto train = [&] {
    TableRun run(p, devices());
    for (int step = 1; step <= 3; ++step) {
      run.train(random_batch(kSamples, kSlots, 40, 0, 30, step), gradient(step), 0.01f, step);
    }
    return run.table().dump(true);
  };
  const BufferBag first = train();
  expect_same(train(), first);
  setenv("HUGECTR_STREAM_DELAY_US", "300", 1);
  const BufferBag delayed = train();
  unsetenv("HUGECTR_STREAM_DELAY_US");
  expect_same(delayed, first);
}

TEST_P(EmbeddingTypes, StridedOutputsAndGradientsAreHonoured) {
  TableRun run(params(type()), devices()), packed(params(type()), devices());
  const HostBatch batch = random_batch(kSamples, kSlots, 3, 0, 40, 4);
  const auto expected = packed.train(batch, gradient(3), 0.01f, 1);
  run.plan(batch, PlanSlot::Train1);
  EXPECT_EQ(run.forward(PlanSlot::Train1, 3), expected);
  run.update(PlanSlot::Train1, gradient(3), 0.01f, 1, 1.0f, 6);
  expect_same(run.table().dump(true), packed.table().dump(true));
}

TEST_P(EmbeddingTypes, AnEmptyBatchIsNoTrouble) {
  TableRun run(params(type()), devices());
  HostBatch empty{{}, std::vector<std::uint32_t>(kSamples * kSlots + 1, 0)};
  EXPECT_TRUE(all_zero(run.evaluate(empty)));
  EXPECT_TRUE(all_zero(run.train(empty, gradient(1), 0.01f, 1)));
  EXPECT_EQ(run.table().dump(true).size(), 0u);
}

TEST(TableLoad, ChecksBudgetsOfAllDevicesBeforeAnythingChanges) {
  SparseEmbeddingHashParams p = params(kDistributed);
  p.max_vocabulary_size_per_gpu = 30;
  TableRun run(p, 2);
  run.train(one_hot(0), gradient(1), 0.01f, 1);  // 24 rows a device
  const BufferBag before = run.table().dump(true);
  BufferBag bag;
  bag.vec_size = kDim;
  for (int i = 0; i < 10; ++i) bag.keys.push_back(1001 + 2 * i);  // all on device 1
  bag.keys.push_back(1000);
  bag.keys.push_back(0);
  bag.vectors.assign(bag.keys.size() * kDim, 3.0f);
  EXPECT_THROW(run.table().load(bag), OutOfMemory);
  expect_same(run.table().dump(true), before);
  bag.keys.assign({1001, 0, 1001});
  bag.vectors.assign(3 * kDim, 1.0f);
  std::fill(bag.vectors.end() - kDim, bag.vectors.end(), 2.0f);
  run.table().load(bag);
  const BufferBag after = run.table().dump(true);
  EXPECT_EQ(after.size(), 49u);
  EXPECT_EQ(after.vectors[0], 1.0f);
  EXPECT_EQ(after.vectors.back(), 2.0f) << "of a key named twice the last row counts";
  EXPECT_EQ(after.states[0][0], before.states[0][0]) << "states not given stay";
}

TEST(TableLoad, RefusesWhatDoesNotFit) {
  TableRun run(params(kLocalized, false), 1);
  BufferBag bag;
  bag.vec_size = kDim;
  bag.keys = {1};
  bag.vectors.resize(kDim);
  EXPECT_THROW(run.table().load(bag), InvalidArgument) << "no slots";
  bag.slot_ids = {kSlots};
  EXPECT_THROW(run.table().load(bag), InvalidArgument) << "slot out of range";
  bag.slot_ids = {0};
  bag.keys = {-1};
  EXPECT_THROW(run.table().load(bag), InvalidArgument) << "not a uint32";
  bag.keys = {0xFFFFFFFFll};
  EXPECT_THROW(run.table().load(bag), InvalidArgument) << "reserved";
  bag.keys = {1};
  bag.vec_size = kDim + 1;
  EXPECT_THROW(run.table().load(bag), InvalidArgument) << "vector size";
  bag.vec_size = kDim;
  run.table().load(bag);
  run.plan(one_hot(5), PlanSlot::Train0);
  EXPECT_THROW(run.table().load(bag), InvalidArgument) << "a batch is planned";
}

TEST(TableState, ResetOptimizerKeepsRows) {
  SparseEmbeddingHashParams p = params(kDistributed);
  p.opt_params.optimizer = Optimizer::AdaGrad;
  p.opt_params.initial_accu_value = 0.5f;
  TableRun run(p, 2);
  run.train(one_hot(0), gradient(1), 0.01f, 1);
  const BufferBag before = run.table().dump(true);
  run.table().reset_optimizer();
  const BufferBag after = run.table().dump(true);
  EXPECT_EQ(after.vectors, before.vectors);
  EXPECT_NE(after.states, before.states);
  EXPECT_EQ(after.states[0], std::vector<float>(48 * kDim, 0.5f));
}

TEST(TableState, SlotSizesGiveBoundsAndBudget) {
  SparseEmbeddingHashParams p = params(kLocalized);
  p.slot_size_array = {4, 100, 400, 10000};
  p.max_vocabulary_size_per_gpu = 1;  // the sizes win
  TableRun run(p, 2);
  ReferenceTable reference(p, 7);
  const HostBatch batch = random_batch(kSamples, kSlots, 3, 0, 4, 1);
  reference.insert(batch);
  run.train(batch, std::vector<float>(kSamples * kSlots * kDim), 0.0f, 1);
  EXPECT_EQ(relative_distance(run.table().dump(false).vectors, reference.vectors()), 0.0);
  EXPECT_EQ(run.table().stats().max_rows, 10504u);
  EXPECT_GT(run.table().stats().bytes, 0u);
  EXPECT_FALSE(run.group().memory_report().empty());
}

TEST(TableState, WrongSettingsAndBatchesAreRefused) {
  const auto make = [](auto change) {
    SparseEmbeddingHashParams p = params(kDistributed);
    change(p);
    TableRun run(p, 2);
  };
  EXPECT_THROW(make([](auto& p) { p.embedding_vec_size = 1025; }), InvalidArgument);
  EXPECT_THROW(make([](auto& p) { p.slot_num = 0; }), InvalidArgument);
  EXPECT_THROW(make([](auto& p) { p.slot_size_array = {1}; }), InvalidArgument);
  EXPECT_THROW(make([](auto& p) { p.batch_size = 13; }), InvalidArgument);
  TableRun run(params(kDistributed), 1);
  EXPECT_THROW(run.forward(PlanSlot::Eval), InvalidArgument) << "no plan";
  EXPECT_THROW(run.plan({{1}, {0, 1}}, PlanSlot::Eval), InvalidArgument) << "not whole samples";
}

}  // namespace
}  // namespace hugectr::test
