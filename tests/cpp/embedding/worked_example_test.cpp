// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "core/cpp/device/stream.hpp"
#include "core/cpp/ops/bucket_scale.hpp"
#include "core/cpp/ops/filter_keys.hpp"
#include "tests/cpp/embedding/table_run.hpp"

/// One small table by hand: two samples, two slots, keys 10 to 50, vectors of two.
namespace hugectr::test {
namespace {

//                 sample 0: slot 0 | slot 1    sample 1: slot 0 | slot 1
const HostBatch kBatch{{40, 50, 10, 20, 30, 50, 10, 30, 20, 10}, {0, 4, 7, 9, 10}};
constexpr std::size_t kDim = 2;

SparseEmbeddingHashParams params(Combiner combiner) {
  SparseEmbeddingHashParams p;
  p.name = "example";
  p.combiner = combiner;
  p.slot_num = 2;
  p.embedding_vec_size = kDim;
  p.opt_params.optimizer = Optimizer::SGD;
  p.opt_params.update_type = Update::Local;
  p.batch_size = p.batch_size_eval = 2;
  return p;
}

/// Key k has the vector (k, k / 100).
BufferBag example_rows() {
  BufferBag bag;
  bag.vec_size = kDim;
  for (const int key : {10, 20, 30, 40, 50}) {
    bag.keys.push_back(key);
    bag.vectors.push_back(static_cast<float>(key));
    bag.vectors.push_back(static_cast<float>(key) / 100.0f);
  }
  return bag;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-5) << "element " << i;
}

class WorkedExample : public ::testing::TestWithParam<std::size_t> {};

TEST_P(WorkedExample, SumsOfTheLookedUpVectors) {
  TableRun run(params(Combiner::Sum), GetParam());
  run.table().load(example_rows());
  const std::vector<float> sums{120, 1.2f, 90, 0.9f, 50, 0.5f, 10, 0.1f};
  expect_near(run.evaluate(kBatch), sums);
  run.plan(kBatch, PlanSlot::Train0);
  expect_near(run.forward(PlanSlot::Train0), sums);
}

TEST_P(WorkedExample, MeansDivideByAllKeysOfTheBucket) {
  TableRun run(params(Combiner::Mean), GetParam());
  run.table().load(example_rows());
  expect_near(run.evaluate(kBatch), {30, 0.3f, 30, 0.3f, 25, 0.25f, 10, 0.1f});
}

TEST_P(WorkedExample, GradientsOfTheSumAddUpPerKey) {
  TableRun run(params(Combiner::Sum), GetParam());
  run.table().load(example_rows());
  // Gradient of bucket b is (b + 1, 10 (b + 1)); with lr 1 and SGD, w falls by the sum over the
  // buckets that hold the key: 40: 1 | 50: 1 + 2 | 10: 1 + 2 + 4 | 20: 1 + 3 | 30: 2 + 3.
  run.train(kBatch, {1, 10, 2, 20, 3, 30, 4, 40}, 1.0f, 1);
  const BufferBag rows = run.table().dump(false);
  EXPECT_EQ(rows.keys, (std::vector<std::int64_t>{10, 20, 30, 40, 50}));
  expect_near(rows.vectors, {10 - 7, 0.1f - 70, 20 - 4, 0.2f - 40, 30 - 5, 0.3f - 50,  //
                             40 - 1, 0.4f - 10, 50 - 3, 0.5f - 30});
}

TEST_P(WorkedExample, GradientsOfTheMeanAreSharedByTheBucket) {
  TableRun run(params(Combiner::Mean), GetParam());
  run.table().load(example_rows());
  // Buckets have 4, 3, 2, 1 keys; with gradient (12, 24) each key sees 3, 4, 6, 12 (and twice it).
  run.train(kBatch, {12, 24, 12, 24, 12, 24, 12, 24}, 1.0f, 1);
  const BufferBag rows = run.table().dump(false);
  expect_near(rows.vectors, {10 - 19, 0.1f - 38, 20 - 9, 0.2f - 18, 30 - 10, 0.3f - 20,  //
                             40 - 3, 0.4f - 6, 50 - 7, 0.5f - 14});
}

INSTANTIATE_TEST_SUITE_P(Devices, WorkedExample, ::testing::Values(1, 2));

/// What filter_keys leaves on each device.
struct Filtered {
  std::vector<std::uint32_t> keys, row_offsets;
};

Filtered filter(const HostBatch& batch, std::size_t rank, std::size_t devices, bool by_slot) {
  auto resources = ResourceManager::create({{0}}, 1);
  GPUResource& gpu = resources->get_local_gpu(0);
  std::vector<std::uint32_t> keys(batch.keys.begin(), batch.keys.end());
  std::vector<std::uint32_t> offsets = batch.row_offsets;
  const std::size_t slots = by_slot ? slots_of_device(2, rank, devices) : 2;
  Filtered own{std::vector<std::uint32_t>(keys.size()),
               std::vector<std::uint32_t>((offsets.size() - 1) / 2 * slots + 1)};
  run(gpu.compute_context(),
      FilterKeys{.keys = make_ref(keys.data(), {keys.size()}, gpu.device()),
                 .row_offsets = make_ref(offsets.data(), {offsets.size()}, gpu.device()),
                 .own_keys = make_ref(own.keys.data(), {own.keys.size()}, gpu.device()),
                 .own_row_offsets =
                     make_ref(own.row_offsets.data(), {own.row_offsets.size()}, gpu.device()),
                 .slot_num = 2,
                 .rank = static_cast<std::int64_t>(rank),
                 .device_count = static_cast<std::int64_t>(devices),
                 .by_slot = by_slot});
  gpu.compute_stream().synchronize();
  own.keys.resize(own.row_offsets.back());
  return own;
}

using Numbers = std::vector<std::uint32_t>;

TEST(WorkedExampleFilter, TwoDevicesAllKeysEven) {
  const Filtered first = filter(kBatch, 0, 2, false), second = filter(kBatch, 1, 2, false);
  EXPECT_EQ(first.keys, (Numbers{40, 50, 10, 20, 30, 50, 10, 30, 20, 10}));
  EXPECT_EQ(first.row_offsets, (Numbers{0, 4, 7, 9, 10}));
  EXPECT_EQ(second.keys, Numbers{});
  EXPECT_EQ(second.row_offsets, (Numbers{0, 0, 0, 0, 0}));
}

TEST(WorkedExampleFilter, ThreeDevices) {
  const Filtered r0 = filter(kBatch, 0, 3, false);
  EXPECT_EQ(r0.keys, (Numbers{30, 30}));
  EXPECT_EQ(r0.row_offsets, (Numbers{0, 0, 1, 2, 2}));
  const Filtered r1 = filter(kBatch, 1, 3, false);
  EXPECT_EQ(r1.keys, (Numbers{40, 10, 10, 10}));
  EXPECT_EQ(r1.row_offsets, (Numbers{0, 2, 3, 3, 4}));
  const Filtered r2 = filter(kBatch, 2, 3, false);
  EXPECT_EQ(r2.keys, (Numbers{50, 20, 50, 20}));
  EXPECT_EQ(r2.row_offsets, (Numbers{0, 2, 3, 4, 4}));
}

TEST(WorkedExampleFilter, BySlotKeepsWholeBuckets) {
  const Filtered even = filter(kBatch, 0, 2, true), odd = filter(kBatch, 1, 2, true);
  EXPECT_EQ(even.keys, (Numbers{40, 50, 10, 20, 30, 20}));
  EXPECT_EQ(even.row_offsets, (Numbers{0, 4, 6}));
  EXPECT_EQ(odd.keys, (Numbers{30, 50, 10, 10}));
  EXPECT_EQ(odd.row_offsets, (Numbers{0, 3, 4}));
  const Filtered none = filter(kBatch, 2, 3, true);
  EXPECT_EQ(none.keys, Numbers{});
  EXPECT_EQ(none.row_offsets, Numbers{0});
}

TEST(WorkedExampleFilter, RowOffsetsOfTheNodesSumToTheBatch) {
  // The example's even keys on one node, odd keys with 5, 2, 3, 1 a bucket on the other.
  const HostBatch both{{40, 50, 10, 20, 1, 3, 5, 7, 9, 30, 50, 10, 1, 3, 30, 20, 5, 7, 9, 10, 1},
                       {0, 9, 14, 19, 21}};
  const Filtered even = filter(both, 0, 2, false), odd = filter(both, 1, 2, false);
  EXPECT_EQ(even.keys, (Numbers{40, 50, 10, 20, 30, 50, 10, 30, 20, 10}));
  EXPECT_EQ(even.row_offsets, (Numbers{0, 4, 7, 9, 10}));
  Numbers sum(even.row_offsets.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = even.row_offsets[i] + odd.row_offsets[i];
  EXPECT_EQ(sum, (Numbers{0, 9, 14, 19, 21}));

  auto resources = ResourceManager::create({{0}}, 1);
  GPUResource& gpu = resources->get_local_gpu(0);
  std::vector<float> scale(4);
  run(gpu.compute_context(),
      BucketScale{.row_offsets = make_ref(sum.data(), {sum.size()}, gpu.device()),
                  .scale = make_ref(scale.data(), {scale.size()}, gpu.device())});
  gpu.compute_stream().synchronize();
  expect_near(scale, {1.0f / 9, 1.0f / 5, 1.0f / 5, 1.0f / 2});
}

}  // namespace
}  // namespace hugectr::test
