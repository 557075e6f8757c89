// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/cpp/embedding/lookup/lookup_group.hpp"

namespace hugectr::test {

/// A global batch on the host: bucket = sample * slots + slot.
struct HostBatch {
  std::vector<std::int64_t> keys;
  std::vector<std::uint32_t> row_offsets;
};

/// Random multi-hot keys of [low, low + range) with 0 .. max_nnz a bucket, some of them twice.
HostBatch random_batch(std::size_t samples, std::size_t slots, std::size_t max_nnz,
                       std::int64_t low, std::int64_t range, std::uint64_t seed);
/// (samples * slots * d) values in [-1, 1).
std::vector<float> random_gradient(std::size_t count, std::uint64_t seed);

/// A table on `devices` virtual CPU devices and what a Session does with it.
class TableRun {
 public:
  TableRun(SparseEmbeddingHashParams params, std::size_t devices, std::uint64_t seed = 7);

  void plan(const HostBatch& batch, PlanSlot slot);
  /// The whole (B, S, d) output; device outputs are strided when `pad` is not 0.
  /// With a step numbers are rounded for their way by chance.
  std::vector<float> forward(PlanSlot slot, std::size_t pad = 0, std::int64_t step = 0);
  void update(PlanSlot slot, const std::vector<float>& gradient, float lr, std::int64_t step,
              float unscale = 1.0f, std::size_t pad = 0);
  std::vector<float> train(const HostBatch& batch, const std::vector<float>& gradient, float lr,
                           std::int64_t step, float unscale = 1.0f);
  std::vector<float> evaluate(const HostBatch& batch);
  /// The whole pipeline without a pause: the plan of the next batch is made while the compute
  /// streams still work, as a Session does it. `lag` holds the compute streams up in every step, so
  /// that plans run as far ahead as they are let. Outputs of all steps, one after the other.
  std::vector<float> train_overlapped(const std::vector<HostBatch>& batches,
                                      const std::vector<std::vector<float>>& gradients, float lr,
                                      std::chrono::microseconds lag);

  ShardedTable& table() { return group_->table(0); }
  LookupGroup& group() { return *group_; }
  ResourceManager& resources() { return *resources_; }

 private:
  struct KeptBatch {
    std::vector<std::uint32_t> keys32;
    std::vector<std::int64_t> keys64;
    std::vector<std::uint32_t> row_offsets;
    std::size_t samples = 0;
  };
  KeptBatch keep(const HostBatch& batch) const;
  void plan_kept(KeptBatch& kept, PlanSlot slot);
  TensorRef on(std::size_t local_id, float* data, std::size_t samples, std::size_t pad);

  SparseEmbeddingHashParams params_;
  std::shared_ptr<ResourceManager> resources_;
  std::unique_ptr<LookupGroup> group_;
  std::array<KeptBatch, 3> batches_;
};

/// ||a - b|| / ||b||, or ||a|| when b is zero.
double relative_distance(const std::vector<float>& a, const std::vector<double>& b);
double relative_distance(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace hugectr::test
