// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include "core/cpp/embedding/collection/table_collection.hpp"
#include "core/cpp/embedding/table/row_arrays.hpp"
#include "tests/cpp/embedding/table_run.hpp"

/// Collections of tables on the host, and what is asked of them.
namespace hugectr::test {

inline constexpr std::size_t kDim = 5, kBuckets = 24;

inline SparseEmbeddingHashParams table(std::size_t id, Combiner combiner,
                                       Optimizer optimizer = Optimizer::Adam) {
  SparseEmbeddingHashParams params;
  params.name = concat("table", id);
  params.table_id = id;
  params.combiner = combiner;
  params.slot_num = 1;
  params.embedding_vec_size = kDim;
  params.i64_keys = true;
  params.opt_params.optimizer = optimizer;
  params.opt_params.update_type = Update::Local;
  params.batch_size = params.batch_size_eval = kBuckets;
  return params;
}

/// A collection whose memory lies on the host.
class Tables {
 public:
  explicit Tables(const std::vector<SparseEmbeddingHashParams>& params)
      : collection(params, {DeviceType::Cpu, 0}, 7) {}

  TableCollection::Token plan(std::vector<HostBatch>& batches) {
    return collection.plan(keys(batches), 0);
  }
  TableCollection::Token begin(std::vector<HostBatch>& batches) {
    return collection.begin(keys(batches), 0, {}, beside);
  }
  std::vector<std::vector<float>> forward(TableCollection::Token token, std::size_t buckets) {
    auto outputs = vectors(buckets, 9.0f);
    collection.forward(token, refs(outputs), 0);
    return outputs;
  }
  std::vector<std::vector<float>> look_up(std::vector<HostBatch>& batches, std::size_t buckets) {
    auto outputs = vectors(buckets, 9.0f);
    collection.look_up(keys(batches), refs(outputs), 0);
    return outputs;
  }
  void accumulate(TableCollection::Token token, std::vector<std::vector<float>> gradients) {
    collection.accumulate(token, refs(gradients), 0);
  }
  void update(TableCollection::Token token, std::vector<std::vector<float>> gradients,
              const std::vector<float>& rates) {
    collection.update(token, refs(gradients), rates, 0);
  }
  void step(float rate = 0.1f) {
    collection.step(std::vector<float>(collection.size(), rate), {}, 0);
  }
  /// Trained rows and states of all tables.
  std::vector<BufferBag> rows() {
    std::vector<BufferBag> bags;
    for (std::size_t t = 0; t < collection.size(); ++t) {
      bags.push_back(collection.access(t).dump(true));
    }
    return bags;
  }

  TableCollection collection;
  bool beside = false;  ///< whether begin() has a thread submit

 private:
  std::vector<std::vector<float>> vectors(std::size_t buckets, float value) const {
    return std::vector<std::vector<float>>(collection.size(),
                                           std::vector<float>(buckets * kDim, value));
  }
  std::vector<SparseTensor> keys(std::vector<HostBatch>& batches) const {
    std::vector<SparseTensor> result;
    for (HostBatch& batch : batches) {
      result.push_back(
          {make_ref(batch.keys.data(), {batch.keys.size()}, collection.device()),
           make_ref(batch.row_offsets.data(), {batch.row_offsets.size()}, collection.device()),
           batch.keys.size()});
    }
    return result;
  }
  std::vector<TensorRef> refs(std::vector<std::vector<float>>& vectors) const {
    std::vector<TensorRef> result;
    for (auto& one : vectors) {  // empty: none of this table
      if (one.empty()) {
        result.emplace_back();
        continue;
      }
      result.push_back(make_ref(one.data(), {one.size() / kDim, 1, kDim}, collection.device()));
    }
    return result;
  }
};

inline void expect_same_rows(const std::vector<BufferBag>& a, const std::vector<BufferBag>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t t = 0; t < a.size(); ++t) {
    EXPECT_EQ(a[t].keys, b[t].keys);
    EXPECT_EQ(a[t].vectors, b[t].vectors);
    EXPECT_EQ(a[t].states, b[t].states);
  }
}

inline std::vector<HostBatch> batches(std::size_t tables, std::size_t buckets, std::uint64_t seed,
                                      std::int64_t low = 0) {
  std::vector<HostBatch> result;
  for (std::size_t t = 0; t < tables; ++t) {
    result.push_back(random_batch(buckets, 1, 4, low, 40, seed + 100 * t));
  }
  return result;
}

inline std::vector<std::vector<float>> gradients(std::size_t tables, std::size_t buckets,
                                                 std::uint64_t seed) {
  std::vector<std::vector<float>> result;
  for (std::size_t t = 0; t < tables; ++t) {
    result.push_back(random_gradient(buckets * kDim, seed + 100 * t));
  }
  return result;
}

}  // namespace hugectr::test
