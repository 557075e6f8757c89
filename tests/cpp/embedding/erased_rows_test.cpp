// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <future>

#include "tests/cpp/embedding/reference_table.hpp"

/// Rows that go, and numbers that are used again: what is visible, saved and trained.
namespace hugectr::test {
namespace {

constexpr std::size_t kSamples = 12, kSlots = 4, kDim = 5;

SparseEmbeddingHashParams params(EmbeddingType type) {
  SparseEmbeddingHashParams p;
  p.name = "table";
  p.type = type;
  p.slot_num = kSlots;
  p.embedding_vec_size = kDim;
  p.i64_keys = true;
  p.opt_params.optimizer = Optimizer::AdaGrad;
  p.opt_params.initial_accu_value = 0.25f;
  p.batch_size = p.batch_size_eval = kSamples;
  return p;
}

/// One key a bucket: first, first + 1, ...
HostBatch one_hot(std::int64_t first) {
  HostBatch batch{{}, {0}};
  for (std::size_t b = 0; b < kSamples * kSlots; ++b) {
    batch.keys.push_back(first + static_cast<std::int64_t>(b));
    batch.row_offsets.push_back(static_cast<std::uint32_t>(b + 1));
  }
  return batch;
}

std::vector<float> gradient(std::uint64_t seed) {
  return random_gradient(kSamples * kSlots * kDim, seed);
}

std::vector<std::uint64_t> slots_of(const HostBatch& batch) {
  std::vector<std::uint64_t> slots;
  for (std::size_t b = 0; b < batch.keys.size(); ++b) slots.push_back(b % kSlots);
  return slots;
}

bool all_zero(const std::vector<float>& v) {
  return std::all_of(v.begin(), v.end(), [](float x) { return x == 0.0f; });
}

void expect_same(const BufferBag& a, const BufferBag& b) {
  EXPECT_EQ(a.keys, b.keys);
  EXPECT_EQ(a.slot_ids, b.slot_ids);
  EXPECT_EQ(a.vectors, b.vectors);
  EXPECT_EQ(a.states, b.states);
}

class ErasedRows : public ::testing::TestWithParam<std::tuple<EmbeddingType, std::size_t>> {
 protected:
  SparseEmbeddingHashParams p() const { return params(std::get<0>(GetParam())); }
  std::size_t devices() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(
    All, ErasedRows,
    ::testing::Combine(::testing::Values(EmbeddingType::DistributedSlotSparseEmbeddingHash,
                                         EmbeddingType::LocalizedSlotSparseEmbeddingHash),
                       ::testing::Values(1, 2, 3)));

TEST_P(ErasedRows, AreForgottenAndTheOthersAreAsTheyWere) {
  TableRun run(p(), devices()), twin(p(), devices());
  for (TableRun* r : {&run, &twin}) r->train(one_hot(0), gradient(1), 0.1f, 1);
  run.train(one_hot(1000), gradient(2), 0.1f, 2);
  const HostBatch gone = one_hot(1000);
  EXPECT_EQ(run.table().erase(gone.keys, slots_of(gone)), 48u);
  EXPECT_EQ(run.table().erase(gone.keys, slots_of(gone)), 0u) << "they are gone already";
  EXPECT_EQ(run.table().stats().rows, 48u);
  expect_same(run.table().dump(true), twin.table().dump(true));
  EXPECT_TRUE(all_zero(run.evaluate(gone)));
  EXPECT_FALSE(all_zero(run.evaluate(one_hot(0))));
}

TEST_P(ErasedRows, ThatComeBackBeginAnewAndTrainLikeNewOnes) {
  TableRun run(p(), devices());
  ReferenceTable reference(p(), 7);
  const HostBatch gone = one_hot(1000), first = one_hot(0), fresh = one_hot(5000);
  run.train(first, gradient(1), 0.1f, 1);
  run.train(gone, gradient(2), 0.1f, 2);
  run.table().erase(gone.keys, slots_of(gone));
  reference.insert(first);
  reference.update(first, gradient(1), 0.1f, 1, 1.0);
  // Half of the freed numbers go to keys that come back, the other to keys that never were.
  for (std::int64_t step = 3; step <= 6; ++step) {
    const HostBatch& batch = step % 2 ? gone : fresh;
    const auto seed = static_cast<std::uint64_t>(step);
    reference.insert(batch);
    const auto expected = reference.forward(batch);
    EXPECT_LE(relative_distance(run.train(batch, gradient(seed), 0.1f, step), expected), 1e-5);
    reference.update(batch, gradient(seed), 0.1f, step, 1.0);
  }
  expect_rows(run.table().dump(true), reference);
}

/// The numbers of rows that have not trained lie between those of rows that have: what is visible
/// is a matter of each row.
TEST_P(ErasedRows, NumbersUsedAgainAreInvisibleUntilTheyTrain) {
  TableRun run(p(), devices());
  const HostBatch gone = one_hot(0), later = one_hot(1000), fresh = one_hot(5000);
  run.train(gone, gradient(1), 0.1f, 1);
  run.train(later, gradient(2), 0.1f, 2);
  run.table().erase(gone.keys, slots_of(gone));
  const BufferBag before = run.table().dump(true);
  run.plan(fresh, PlanSlot::Train0);  // one ahead
  EXPECT_TRUE(all_zero(run.evaluate(fresh)));
  EXPECT_FALSE(all_zero(run.evaluate(later)));
  expect_same(run.table().dump(true), before);
  EXPECT_EQ(run.table().stats().rows, 48u);
  EXPECT_THROW(run.table().erase(later.keys, slots_of(later)), InvalidArgument) << "planned";

  run.group().drop_plan(PlanSlot::Train0);
  expect_same(run.table().dump(true), before);
  EXPECT_TRUE(all_zero(run.evaluate(fresh)));
  run.plan(fresh, PlanSlot::Train1);
  const std::vector<float> output = run.forward(PlanSlot::Train1);
  EXPECT_FALSE(all_zero(output));
  run.update(PlanSlot::Train1, std::vector<float>(kSamples * kSlots * kDim), 0.1f, 3);
  EXPECT_EQ(run.evaluate(fresh), output);
  EXPECT_EQ(run.table().stats().rows, 96u);
}

/// The vectors of all rows that have numbers, as they lie there.
std::vector<std::vector<float>> vectors_of(TableRun& run) {
  std::vector<std::vector<float>> all;
  for (std::size_t id = 0; id < run.resources().get_local_gpu_count(); ++id) {
    const Table& part = run.table().part(id);
    const TensorRef vectors = part.store().whole(part.size()).vectors;
    all.emplace_back(vectors.ptr<float>(), vectors.ptr<float>() + vectors.size());
  }
  return all;
}

/// As TableRun::plan(), which first waits for all that was begun.
void plan_beside(TableRun& run, HostBatch& batch, PlanSlot slot) {
  run.resources().for_each_device_planning([&](std::size_t id) {
    GPUResource& gpu = run.resources().get_local_gpu(id);
    const SparseTensor keys{
        make_ref(batch.keys.data(), {batch.keys.size()}, gpu.device()),
        make_ref(batch.row_offsets.data(), {batch.row_offsets.size()}, gpu.device()),
        batch.keys.size()};
    run.group().plan(id, {&keys, 1}, slot, true);
    gpu.plan_stream().synchronize();
  });
}

/// A sweep reads and writes all rows below its plan's extent, free numbers among them: the plan
/// that is made beside it writes none of these.
TEST_P(ErasedRows, NumbersUsedAgainBeginBehindTheSweepOfTheStepBefore) {
  SparseEmbeddingHashParams sweeping = p();
  sweeping.opt_params = {};
  sweeping.opt_params.optimizer = Optimizer::Adam;
  sweeping.opt_params.update_type = Update::Global;
  TableRun run(sweeping, devices()), twin(sweeping, devices());
  const HostBatch gone = one_hot(0), later = one_hot(1000);
  HostBatch fresh = one_hot(5000);
  run.train(gone, gradient(1), 0.1f, 1);
  run.train(later, gradient(2), 0.1f, 2);
  run.table().erase(gone.keys, slots_of(gone));
  run.plan(later, PlanSlot::Train0);
  run.forward(PlanSlot::Train0);

  std::promise<void> go;
  const std::shared_future<void> gone_on = go.get_future().share();
  std::vector<float> gradients = gradient(3);
  float rate = 0.1f;
  std::int64_t step = 3;
  const std::size_t own = kSamples / devices();
  run.resources().for_each_device([&](std::size_t id) {
    GPUResource& gpu = run.resources().get_local_gpu(id);
    gpu.compute_stream().submit([gone_on] { gone_on.wait(); });
    const TensorRef part =
        make_ref(gradients.data() + id * own * kSlots * kDim, {own, kSlots, kDim}, gpu.device());
    run.group().backward_and_update(
        id, PlanSlot::Train0, {&part, 1},
        {make_ref(&rate, {1}, gpu.device()), make_ref(&step, {1}, gpu.device()), TensorRef{}});
  });
  const std::vector<std::vector<float>> before = vectors_of(run);
  plan_beside(run, fresh, PlanSlot::Train1);
  EXPECT_EQ(vectors_of(run), before) << "the step that sweeps them is yet to come";
  go.set_value();
  twin.plan(fresh, PlanSlot::Train0);
  EXPECT_EQ(run.forward(PlanSlot::Train1), twin.forward(PlanSlot::Train0));
  run.update(PlanSlot::Train1, gradient(4), 0.1f, 4);
  EXPECT_EQ(run.table().stats().rows, 96u);
}

TEST_P(ErasedRows, MakeRoomInAFullBudget) {
  SparseEmbeddingHashParams full = p();
  full.max_vocabulary_size_per_gpu = 48;
  TableRun run(full, 1);
  const HostBatch first = one_hot(0), second = one_hot(100);
  run.train(first, gradient(1), 0.1f, 1);
  EXPECT_THROW(run.plan(second, PlanSlot::Train0), OutOfMemory);
  run.group().drop_plan(PlanSlot::Train0);
  run.table().erase(first.keys, slots_of(first));
  run.train(second, gradient(2), 0.1f, 2);
  EXPECT_EQ(run.table().stats().rows, 48u);
  EXPECT_THROW(run.plan(first, PlanSlot::Train0), OutOfMemory);
  EXPECT_EQ(run.table().dump(false).keys, [&] {
    BufferBag wanted;
    TableRun twin(full, 1);
    twin.train(second, gradient(2), 0.1f, 2);
    return twin.table().dump(false).keys;
  }());
}

TEST_P(ErasedRows, EndWhatAMarkKnowsAndLoadAgain) {
  TableRun run(p(), devices());
  const HostBatch first = one_hot(0), second = one_hot(1000);
  run.train(first, gradient(1), 0.1f, 1);
  const BufferBag saved = run.table().dump(true);
  run.train(second, gradient(2), 0.1f, 2);
  const RowMark mark = run.table().mark();
  run.table().erase(first.keys, slots_of(first));
  EXPECT_FALSE(run.table().knows_since(mark)) << "an order can not name rows that are gone";
  const RowMark later = run.table().mark();
  run.table().load(saved);
  EXPECT_EQ(run.table().order(later).keys, saved.keys);
  run.table().erase(second.keys, slots_of(second));
  expect_same(run.table().dump(true), saved);
}

/// A view has no way to leave rows out.
TEST_P(ErasedRows, AreInNoView) {
  TableRun run(p(), 1);
  const HostBatch first = one_hot(0), second = one_hot(1000), fresh = one_hot(5000);
  run.train(first, gradient(1), 0.1f, 1);
  run.train(second, gradient(2), 0.1f, 2);
  EXPECT_EQ(run.table().rows(0).keys.size(), 96u);
  run.table().erase(first.keys, slots_of(first));
  EXPECT_THROW(run.table().rows(0), InvalidArgument);
  run.plan(fresh, PlanSlot::Train0);
  EXPECT_THROW(run.table().rows(0), InvalidArgument) << "rows that have not trained";
  run.forward(PlanSlot::Train0);
  run.update(PlanSlot::Train0, gradient(3), 0.1f, 3);
  EXPECT_EQ(run.table().rows(0).keys.size(), 96u) << "all numbers are of rows again";
}

/// A frozen table changes by its new rows only, wherever their numbers come from.
TEST_P(ErasedRows, NewRowsOfAFrozenTableAreNoted) {
  TableRun run(p(), devices());
  const HostBatch first = one_hot(0), second = one_hot(1000), fresh = one_hot(5000);
  run.train(first, gradient(1), 0.1f, 1);
  run.train(second, gradient(2), 0.1f, 2);
  run.table().erase(first.keys, slots_of(first));
  const RowMark mark = run.table().mark();
  run.table().freeze();
  run.train(fresh, gradient(3), 0.1f, 3);
  run.train(second, gradient(4), 0.1f, 4);
  auto keys = run.table().order(mark).keys;
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(keys, fresh.keys);
}

}  // namespace
}  // namespace hugectr::test
