// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "core/cpp/embedding/lookup/lookup_group.hpp"
#include "tests/cuda/gpu.hpp"

/// A table on a GPU against the same table on the CPU, whose rules tests/cpp/embedding checks.
namespace hugectr {
namespace {

constexpr std::size_t kSamples = 64, kSlots = 6, kDim = 20;

SparseEmbeddingHashParams params_of(EmbeddingType type) {
  SparseEmbeddingHashParams params;
  params.name = "table";
  params.type = type;
  params.combiner = Combiner::Mean;
  params.slot_num = kSlots;
  params.embedding_vec_size = kDim;
  params.i64_keys = true;
  params.opt_params.optimizer = Optimizer::SGD;
  params.batch_size = params.batch_size_eval = kSamples;
  return params;
}

struct HostBatch {
  std::vector<std::int64_t> keys;
  std::vector<std::uint32_t> row_offsets{0};
};

/// 0 to 4 keys a bucket out of [low, low + range).
HostBatch random_batch(std::int64_t low, std::int64_t range, std::uint64_t seed,
                       std::size_t samples = kSamples) {
  std::mt19937_64 random(seed);
  HostBatch batch;
  for (std::size_t bucket = 0; bucket < samples * kSlots; ++bucket) {
    for (std::size_t i = random() % 5; i > 0; --i) {
      batch.keys.push_back(low +
                           static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(range)));
    }
    batch.row_offsets.push_back(static_cast<std::uint32_t>(batch.keys.size()));
  }
  return batch;
}

/// A table on one device of a type, and its batches in that device's memory.
class TableOn {
 public:
  TableOn(DeviceType type, const SparseEmbeddingHashParams& params)
      : resources_(ResourceManager::create({{0}}, 17, type)),
        gpu_(resources_->get_local_gpu(0)),
        memory_(gpu_.memory_resource()),
        group_(std::make_unique<LookupGroup>(std::vector{params}, resources_)) {}
  ~TableOn() {
    resources_->synchronize();
    group_.reset();
    for (const auto& [data, bytes] : held_) memory_->deallocate(data, bytes);
  }
  TableOn(const TableOn&) = delete;
  TableOn& operator=(const TableOn&) = delete;

  void plan(const HostBatch& batch, PlanSlot slot) {
    const std::size_t n = batch.keys.size();
    samples_[static_cast<std::size_t>(slot)] = (batch.row_offsets.size() - 1) / kSlots;
    const SparseTensor csr{copy(batch.keys, {n}),
                           copy(batch.row_offsets, {batch.row_offsets.size()}), n};
    group_->plan(0, {&csr, 1}, slot, slot != PlanSlot::Eval);
  }
  std::vector<float> forward(PlanSlot slot) {
    const std::size_t samples = samples_[static_cast<std::size_t>(slot)];
    std::vector<float> host(samples * kSlots * kDim);
    const TensorRef output = copy(host, {samples, kSlots, kDim});
    group_->forward(0, slot, {&output, 1});
    gpu_.compute_stream().copy(host.data(), output.data, output.size_in_bytes());
    gpu_.compute_stream().synchronize();
    return host;
  }
  void update(PlanSlot slot, std::uint64_t seed) {
    const std::size_t samples = samples_[static_cast<std::size_t>(slot)];
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    std::vector<float> gradient(samples * kSlots * kDim);
    for (float& g : gradient) g = uniform(random);
    const TensorRef vectors = copy(gradient, {samples, kSlots, kDim});
    group_->backward_and_update(
        0, slot, {&vectors, 1},
        {copy(std::vector<float>{0.1f}, {1}), copy(std::vector<std::int64_t>{1}, {1}), {}});
  }
  std::vector<float> train(const HostBatch& batch, std::uint64_t seed) {
    plan(batch, PlanSlot::Train0);
    auto output = forward(PlanSlot::Train0);
    update(PlanSlot::Train0, seed);
    return output;
  }
  ShardedTable& table() { return group_->table(0); }
  LookupGroup& group() { return *group_; }

 private:
  template <class T>
  TensorRef copy(const std::vector<T>& values, const Shape& shape) {
    const std::size_t bytes = values.size() * sizeof(T);
    void* const data = memory_->allocate(bytes, "test");
    held_.emplace_back(data, bytes);
    gpu_.memcpy_stream().copy(data, values.data(), bytes);
    gpu_.memcpy_stream().synchronize();
    return make_ref(static_cast<T*>(data), shape, gpu_.device());
  }

  std::shared_ptr<ResourceManager> resources_;
  GPUResource& gpu_;
  std::shared_ptr<MemoryResource> memory_;
  std::unique_ptr<LookupGroup> group_;
  std::array<std::size_t, 3> samples_{};
  std::vector<std::pair<void*, std::size_t>> held_;
};

void expect_close(const std::vector<float>& found, const std::vector<float>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - wanted[i], 2);
    norm += std::pow(static_cast<double>(wanted[i]), 2);
  }
  EXPECT_LE(std::sqrt(difference), 1e-5 * std::sqrt(norm));
}

void expect_same_rows(const BufferBag& found, const BufferBag& wanted) {
  EXPECT_EQ(found.keys, wanted.keys);
  EXPECT_EQ(found.slot_ids, wanted.slot_ids);
  expect_close(found.vectors, wanted.vectors);
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

class CudaEmbedding : public GpuTest<1>, public testing::WithParamInterface<EmbeddingType> {
 protected:
  SparseEmbeddingHashParams params() const { return params_of(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Types, CudaEmbedding,
                         testing::Values(EmbeddingType::DistributedSlotSparseEmbeddingHash,
                                         EmbeddingType::LocalizedSlotSparseEmbeddingHash));

TEST_P(CudaEmbedding, GrowsUnderPlansMadeAheadLikeTheCpu) {
  TableOn gpu(DeviceType::Cuda, params()), cpu(DeviceType::Cpu, params());
  const auto slot_of = [](int i) { return i % 2 ? PlanSlot::Train1 : PlanSlot::Train0; };
  // Batches grow too: plans get new buffers while others are under way.
  const auto batch = [](int i) {
    return random_batch(400 * i, 1500, static_cast<std::uint64_t>(i), 64 + 16 * (i / 4));
  };
  for (TableOn* t : {&gpu, &cpu}) t->plan(batch(0), slot_of(0));
  for (int i = 0; i < 24; ++i) {
    for (TableOn* t : {&gpu, &cpu}) t->plan(batch(i + 1), slot_of(i + 1));
    expect_close(gpu.forward(slot_of(i)), cpu.forward(slot_of(i)));
    for (TableOn* t : {&gpu, &cpu}) t->update(slot_of(i), static_cast<std::uint64_t>(i));
  }
  EXPECT_GT(cpu.table().stats().rows, 8'000u);
  expect_same_rows(gpu.table().dump(false), cpu.table().dump(false));
  EXPECT_EQ(gpu.table().stats().rows, cpu.table().stats().rows);
  EXPECT_EQ(gpu.table().stats().index_slots, cpu.table().stats().index_slots);
}

TEST_P(CudaEmbedding, AFullBudgetChangesNothingAndTrainingGoesOn) {
  auto p = params();
  p.max_vocabulary_size_per_gpu = 3000;
  TableOn gpu(DeviceType::Cuda, p), twin(DeviceType::Cuda, p);
  for (TableOn* t : {&gpu, &twin}) t->train(random_batch(0, 300, 1), 1);
  const std::string message = message_of<OutOfMemory>(
      [&] { gpu.plan(random_batch(0, 1 << 20, 2, 3000), PlanSlot::Train1); });
  EXPECT_NE(message.find("'table'"), std::string::npos) << message;
  EXPECT_NE(message.find("may have 3000"), std::string::npos) << message;
  for (TableOn* t : {&gpu, &twin}) t->train(random_batch(100, 300, 3), 2);
  const BufferBag found = gpu.table().dump(false), wanted = twin.table().dump(false);
  EXPECT_EQ(found.keys, wanted.keys);
  EXPECT_EQ(found.vectors, wanted.vectors) << "bit for bit";
}

TEST_P(CudaEmbedding, ADroppedPlanGivesItsRowsBack) {
  TableOn gpu(DeviceType::Cuda, params());
  gpu.train(random_batch(0, 200, 1), 1);
  const BufferBag before = gpu.table().dump(false);
  gpu.plan(random_batch(100, 5000, 2), PlanSlot::Train1);
  gpu.plan(random_batch(9000, 5000, 3), PlanSlot::Train0);
  gpu.group().drop_plan(PlanSlot::Train1);
  EXPECT_EQ(gpu.table().dump(false).vectors, before.vectors);
  gpu.plan(random_batch(20'000, 50, 4), PlanSlot::Eval);
  const auto unknown = gpu.forward(PlanSlot::Eval);
  EXPECT_TRUE(std::all_of(unknown.begin(), unknown.end(), [](float x) { return x == 0.0f; }));
  TableOn twin(DeviceType::Cuda, params());
  twin.train(random_batch(0, 200, 1), 1);
  for (TableOn* t : {&gpu, &twin}) t->train(random_batch(150, 4000, 5), 2);
  EXPECT_EQ(gpu.table().dump(false).keys, twin.table().dump(false).keys);
  EXPECT_EQ(gpu.table().dump(false).vectors, twin.table().dump(false).vectors);
}

TEST_P(CudaEmbedding, TheReservedKeyIsNamedWithItsPlace) {
  TableOn gpu(DeviceType::Cuda, params());
  HostBatch batch = random_batch(0, 100, 1);
  const std::size_t bucket = 5 * kSlots + 2;
  const auto at = static_cast<std::ptrdiff_t>(batch.row_offsets[bucket]);
  batch.keys.insert(batch.keys.begin() + at, std::numeric_limits<std::int64_t>::max());
  for (std::size_t b = bucket + 1; b < batch.row_offsets.size(); ++b) ++batch.row_offsets[b];
  const std::string message =
      message_of<InvalidArgument>([&] { gpu.plan(batch, PlanSlot::Train0); });
  EXPECT_NE(message.find("sample 5, slot 2"), std::string::npos) << message;
  EXPECT_EQ(gpu.table().stats().rows, 0u);
  EXPECT_NE(message_of<InvalidArgument>([&] { gpu.plan(batch, PlanSlot::Eval); }).find("reserved"),
            std::string::npos);
  gpu.train(random_batch(0, 100, 2), 1);
  EXPECT_GT(gpu.table().stats().rows, 0u);
}

TEST_P(CudaEmbedding, PlansThatNeverTrainAreNoTrouble) {
  TableOn gpu(DeviceType::Cuda, params());
  for (int i = 0; i < 12; ++i) {
    gpu.plan(random_batch(3000 * i, 3000, static_cast<std::uint64_t>(i), 64 << (i / 3)),
             i % 2 ? PlanSlot::Train1 : PlanSlot::Train0);
  }
  EXPECT_EQ(gpu.table().stats().rows, 0u);
}

}  // namespace
}  // namespace hugectr
