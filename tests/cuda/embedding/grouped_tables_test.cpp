// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <utility>

#include "core/cpp/embedding/lookup/lookup_group.hpp"
#include "core/cpp/ops/filter_keys.hpp"
#include "tests/cuda/gpu.hpp"

/// Tables of one group on GPUs against each in a group of its own there: the same bits, whatever
/// kernel serves several at once.
namespace hugectr {
namespace {

constexpr std::size_t kSamples = 96;

struct HostBatch {
  std::vector<std::int64_t> keys;
  std::vector<std::uint32_t> row_offsets{0};
};

/// Every vector size and width, slots that count and that do not, sums and means; one table gets
/// hardly a key.
std::vector<SparseEmbeddingHashParams> tables(Optimizer optimizer, Update update,
                                              ExchangeType exchange) {
  std::vector<SparseEmbeddingHashParams> all;
  for (std::size_t i = 0; i < 26; ++i) {
    SparseEmbeddingHashParams params;
    params.name = concat("table", i);
    params.table_id = i;
    params.type = i % 3 == 1 ? EmbeddingType::LocalizedSlotSparseEmbeddingHash
                             : EmbeddingType::DistributedSlotSparseEmbeddingHash;
    params.combiner = i % 2 ? Combiner::Mean : Combiner::Sum;
    params.exchange = exchange;
    params.slot_num = 1 + i % 4;
    params.embedding_vec_size = std::array<std::size_t, 7>{4, 16, 32, 64, 128, 7, 1}[i % 7];
    params.i64_keys = true;
    params.opt_params.optimizer = optimizer;
    params.opt_params.update_type = update;
    params.opt_params.initial_accu_value = 0.1f;
    params.batch_size = params.batch_size_eval = kSamples;
    if (i % 5 == 1 && i % 3 == 1) params.slot_size_array.assign(params.slot_num, 2000);
    all.push_back(params);
  }
  return all;
}

HostBatch batch_of(const SparseEmbeddingHashParams& params, std::uint64_t seed) {
  std::mt19937_64 random(1000 * seed + params.table_id);
  const std::uint64_t range = params.table_id == 9 ? 1 : 3 + params.table_id * params.table_id;
  HostBatch batch;
  for (std::size_t bucket = 0; bucket < kSamples * params.slot_num; ++bucket) {
    const bool any = params.table_id != 9 || bucket == 5;
    for (std::size_t i = any ? random() % 4 : 0; i > 0; --i) {
      batch.keys.push_back(static_cast<std::int64_t>(40 * seed + random() % range));
    }
    batch.row_offsets.push_back(static_cast<std::uint32_t>(batch.keys.size()));
  }
  return batch;
}

class TablesOn {
 public:
  TablesOn(const std::vector<SparseEmbeddingHashParams>& params, std::size_t devices, bool together)
      : params_(params) {
    std::vector<int> ids(devices);
    std::iota(ids.begin(), ids.end(), 0);
    resources_ = ResourceManager::create({ids}, 17, DeviceType::Cuda);
    if (together) {
      groups_.push_back(std::make_unique<LookupGroup>(params, resources_));
    } else {
      for (const auto& one : params) {
        groups_.push_back(std::make_unique<LookupGroup>(std::vector{one}, resources_));
      }
    }
    held_.resize(devices);
  }
  ~TablesOn() {
    resources_->synchronize();
    groups_.clear();
    for (std::size_t id = 0; id < held_.size(); ++id) {
      const auto memory = resources_->get_local_gpu(id).memory_resource();
      for (const auto& [data, bytes] : held_[id]) memory->deallocate(data, bytes);
    }
  }
  TablesOn(const TablesOn&) = delete;
  TablesOn& operator=(const TablesOn&) = delete;

  void plan(std::uint64_t seed, PlanSlot slot) {
    resources_->for_each_device_planning([&](std::size_t id) {
      std::vector<SparseTensor> batch;
      for (const auto& params : params_) {
        const HostBatch host = batch_of(params, seed);
        const std::size_t n = host.keys.size();
        batch.push_back(
            {copy(id, host.keys, {n}), copy(id, host.row_offsets, {host.row_offsets.size()}), n});
      }
      each(batch, [&](LookupGroup& group, std::span<const SparseTensor> part) {
        group.plan(id, part, slot, slot != PlanSlot::Eval);
      });
    });
  }
  std::vector<std::vector<float>> forward(PlanSlot slot) {
    std::vector<std::vector<float>> all(params_.size() * devices());
    resources_->for_each_device([&](std::size_t id) {
      std::vector<TensorRef> outputs;
      for (const auto& params : params_) outputs.push_back(vectors(id, params, nullptr));
      each(outputs, [&](LookupGroup& group, std::span<const TensorRef> part) {
        group.forward(id, slot, part);
      });
      Stream& stream = resources_->get_local_gpu(id).compute_stream();
      for (std::size_t t = 0; t < outputs.size(); ++t) {
        auto& host = all[id * params_.size() + t];
        host.resize(outputs[t].size());
        stream.copy(host.data(), outputs[t].data, outputs[t].size_in_bytes());
      }
      stream.synchronize();
    });
    return all;
  }
  void update(PlanSlot slot, std::uint64_t seed) {
    resources_->for_each_device([&](std::size_t id) {
      std::mt19937_64 random(100 * seed + id);
      std::vector<TensorRef> gradients;
      for (const auto& params : params_) gradients.push_back(vectors(id, params, &random));
      const UpdateScalars scalars{copy(id, std::vector<float>{0.1f}, {1}),
                                  copy(id, std::vector{static_cast<std::int64_t>(seed)}, {1}),
                                  {}};
      each(gradients, [&](LookupGroup& group, std::span<const TensorRef> part) {
        group.backward_and_update(id, slot, part, scalars);
      });
    });
    resources_->synchronize();
  }
  ShardedTable& operator[](std::size_t i) {
    return groups_.size() == 1 ? groups_[0]->table(i) : groups_[i]->table(0);
  }
  std::size_t size() const { return params_.size(); }
  std::size_t devices() const { return held_.size(); }

 private:
  /// Calls f(group, its part of what there is one of for each table).
  template <class T, class F>
  void each(const std::vector<T>& all, const F& f) {
    std::size_t at = 0;
    for (const auto& group : groups_) {
      f(*group, std::span<const T>(all).subspan(at, group->size()));
      at += group->size();
    }
  }
  template <class T>
  TensorRef copy(std::size_t id, const std::vector<T>& values, const Shape& shape) {
    GPUResource& gpu = resources_->get_local_gpu(id);
    const std::size_t bytes = std::max<std::size_t>(values.size(), 1) * sizeof(T);
    void* const data = gpu.memory_resource()->allocate(bytes, "test");
    held_[id].emplace_back(data, bytes);
    gpu.memcpy_stream().copy(data, values.data(), values.size() * sizeof(T));
    gpu.memcpy_stream().synchronize();
    return make_ref(static_cast<T*>(data), shape, gpu.device());
  }
  TensorRef vectors(std::size_t id, const SparseEmbeddingHashParams& params,
                    std::mt19937_64* random) {
    const Shape shape{kSamples / devices(), params.slot_num, params.embedding_vec_size};
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    std::vector<float> values(num_elements(shape));
    if (random) {
      for (float& value : values) value = uniform(*random);
    }
    return copy(id, values, shape);
  }

  std::vector<SparseEmbeddingHashParams> params_;
  std::shared_ptr<ResourceManager> resources_;
  std::vector<std::unique_ptr<LookupGroup>> groups_;
  std::vector<std::vector<std::pair<void*, std::size_t>>> held_;  ///< of each device
};

void expect_same(TablesOn& found, TablesOn& wanted) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const BufferBag a = found[i].dump(true), b = wanted[i].dump(true);
    EXPECT_EQ(a.keys, b.keys) << i;
    EXPECT_EQ(a.slot_ids, b.slot_ids) << i;
    EXPECT_EQ(a.vectors, b.vectors) << i;
    EXPECT_EQ(a.states, b.states) << i;
    EXPECT_EQ(a.last_step, b.last_step) << i;
  }
}

void train_and_compare(const std::vector<SparseEmbeddingHashParams>& params, std::size_t devices) {
  TablesOn together(params, devices, true), alone(params, devices, false);
  for (std::uint64_t step = 1; step <= 6; ++step) {
    for (TablesOn* tables : {&together, &alone}) {
      if (step != 4) continue;
      // From here on free numbers are used again, and births tell what has trained.
      for (std::size_t i = 0; i < params.size(); i += 2) {
        const BufferBag rows = (*tables)[i].dump(false);
        const std::vector<std::int64_t> keys(
            rows.keys.begin(), rows.keys.begin() + static_cast<std::ptrdiff_t>(rows.size() / 2));
        std::vector<std::uint64_t> slots = rows.slot_ids;
        slots.resize(slots.empty() ? 0 : keys.size());
        (*tables)[i].erase(keys, slots);
      }
    }
    std::vector<std::vector<float>> outputs;
    for (TablesOn* tables : {&together, &alone}) {
      tables->plan(step % 4, PlanSlot::Train0);
      const auto trained = tables->forward(PlanSlot::Train0);
      tables->update(PlanSlot::Train0, step);
      tables->plan(step % 4 + 1, PlanSlot::Eval);
      auto all = tables->forward(PlanSlot::Eval);
      all.insert(all.end(), trained.begin(), trained.end());
      if (tables == &together) {
        outputs = std::move(all);
      } else {
        EXPECT_EQ(outputs, all) << "step " << step;
      }
    }
  }
  expect_same(together, alone);
}

/// What is trained over tiers, a batch a step: rows come, go and come again.
constexpr std::array<std::uint64_t, 9> kBatches{4, 12, 4, 24, 36, 12, 4, 24, 40};

/// Rows of a batch that a device has, as pairs of slot (0 where a row is a key) and key.
std::set<std::pair<std::size_t, std::int64_t>> rows_of(const SparseEmbeddingHashParams& params,
                                                       std::uint64_t seed, std::size_t device,
                                                       std::size_t devices) {
  const bool by_slot = params.type == EmbeddingType::LocalizedSlotSparseEmbeddingHash;
  const HostBatch batch = batch_of(params, seed);
  std::set<std::pair<std::size_t, std::int64_t>> rows;
  for (std::size_t bucket = 0; bucket + 1 < batch.row_offsets.size(); ++bucket) {
    const std::size_t slot = bucket % params.slot_num;
    for (std::size_t i = batch.row_offsets[bucket]; i < batch.row_offsets[bucket + 1]; ++i) {
      const auto key = static_cast<std::uint64_t>(batch.keys[i]);
      const std::size_t owner = by_slot ? owner_of_slot(slot, devices) : owner_of_key(key, devices);
      if (owner == device) rows.emplace(by_slot ? slot : 0, batch.keys[i]);
    }
  }
  return rows;
}

/// Places on each device for the rows of any two batches that follow each other, and a few more.
std::vector<SparseEmbeddingHashParams> over_tiers(std::vector<SparseEmbeddingHashParams> all,
                                                  std::size_t devices) {
  for (SparseEmbeddingHashParams& params : all) {
    std::size_t places = 0;
    for (std::size_t device = 0; device < devices; ++device) {
      for (std::size_t step = 0; step + 1 < kBatches.size(); ++step) {
        auto rows = rows_of(params, kBatches[step], device, devices);
        rows.merge(rows_of(params, kBatches[step + 1], device, devices));
        places = std::max(places, rows.size());
      }
    }
    // Of AdaGrad: vector and state, and what a place needs beside them.
    params.memory = {.device = (places + 4) * (8 * params.embedding_vec_size + 8), .host = {}};
  }
  return all;
}

/// Who goes over all rows finds each, wherever swaps have left it.
void expect_same_neighbours(TablesOn& found, TablesOn& wanted) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<float> query(found[i].params().embedding_vec_size, 0.5f);
    const Neighbours a = found[i].nearest(query, 4, Similarity::Dot, std::nullopt);
    const Neighbours b = wanted[i].nearest(query, 4, Similarity::Dot, std::nullopt);
    EXPECT_EQ(a.keys, b.keys) << i;
    EXPECT_EQ(a.scores, b.scores) << i;
  }
}

void train_over_tiers(const std::vector<SparseEmbeddingHashParams>& params, std::size_t devices) {
  TablesOn all(params, devices, true), tiered(over_tiers(params, devices), devices, true);
  for (TablesOn* tables : {&all, &tiered}) tables->plan(kBatches[0], PlanSlot::Train0);
  for (std::size_t step = 0; step + 1 < kBatches.size(); ++step) {
    const auto slot = step % 2 ? PlanSlot::Train1 : PlanSlot::Train0;
    const auto next = step % 2 ? PlanSlot::Train0 : PlanSlot::Train1;
    std::vector<std::vector<float>> outputs;
    for (TablesOn* tables : {&all, &tiered}) {
      auto found = tables->forward(slot);
      tables->plan(kBatches[step + 1], next);  // beside the step
      tables->update(slot, step + 1);
      if (tables == &all) {
        outputs = std::move(found);
      } else {
        EXPECT_EQ(outputs, found) << "step " << step;
      }
    }
    if (step == 4) expect_same_neighbours(tiered, all);  // and rows swap on
  }
  expect_same(tiered, all);
  expect_same_neighbours(tiered, all);
  expect_same(tiered, all);
  std::size_t moved = 0;
  for (std::size_t i = 0; i < tiered.size(); ++i) {
    const TierCounts counts = tiered[i].stats().tiers;
    moved += counts.bytes_fetched > 0 && counts.bytes_written_back > 0;
  }
  EXPECT_GT(moved, 5u);
}

class GroupedTables : public GpuTest<1> {};

TEST_F(GroupedTables, GiveTheBitsOfEachAlone) {
  for (const Optimizer optimizer : {Optimizer::SGD, Optimizer::Adam, Optimizer::AdaGrad,
                                    Optimizer::Ftrl, Optimizer::RowWiseAdaGrad}) {
    train_and_compare(tables(optimizer, Update::Local, ExchangeType::Auto), 1);
  }
  for (const Update update : {Update::Global, Update::LazyGlobal}) {
    train_and_compare(tables(Optimizer::Adam, update, ExchangeType::Auto), 1);
  }
}

TEST_F(GroupedTables, OverTiersHaveTheBitsOfThoseOnTheDevice) {
  train_over_tiers(tables(Optimizer::AdaGrad, Update::Local, ExchangeType::Auto), 1);
}

class GroupedTablesOfTwo : public GpuTest<2> {};

TEST_F(GroupedTablesOfTwo, GiveTheBitsOfEachAlone) {
  for (const ExchangeType exchange :
       {ExchangeType::Pooled, ExchangeType::Unique, ExchangeType::Auto}) {
    train_and_compare(tables(Optimizer::Adam, Update::Local, exchange), 2);
  }
}

TEST_F(GroupedTablesOfTwo, OverTiersHaveTheBitsOfThoseOnTheDevices) {
  for (const ExchangeType exchange : {ExchangeType::Pooled, ExchangeType::Unique}) {
    train_over_tiers(tables(Optimizer::AdaGrad, Update::Local, exchange), 2);
  }
}

}  // namespace
}  // namespace hugectr
