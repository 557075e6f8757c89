// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/embedding/embedding.hpp"
#include "core/cpp/embedding/lookup_plan.hpp"
#include "core/cpp/embedding/slot_distribution.hpp"

namespace hugectr {

/// The `unique` exchange of one device: each distinct row of a device's samples travels to it once,
/// and its gradient back once, summed over those samples. On keys of a power law that is about a
/// sixth of the bytes that pooled vectors of one-hot slots take.
///
/// plan() counts what either exchange would move and chooses, the same on all devices, from nothing
/// but the keys of the batch: a run that is resumed chooses the same again.
class UniqueExchange {
 public:
  /// Not for a single device. The distribution must outlive this.
  UniqueExchange(const SparseEmbeddingHashParams& params, GPUResource& gpu, std::string owner,
                 const SlotDistribution& distribution);

  /// On the plan stream, once the plan's rows are known: fills plan.unique and the plan's runs and
  /// waits for them, or returns false with plan.unique.used false. Collective.
  bool plan(LookupPlan& plan, const SparseTensor& csr);
  /// On the compute stream: rows of the plan's weights -> output (b, S, d). Collective.
  void forward(const OpContext& context, const LookupPlan& plan, const ExchangeBuffers& buffers,
               const TensorRef& output) const;
  /// gradient (b, S, d) -> a vector for each row that was asked for (asked_rows, 1, d), which are
  /// the buckets of the plan's runs. float16 travels as float32. On the stream that updates the
  /// table. Collective.
  TensorRef backward(const OpContext& context, const LookupPlan& plan,
                     const ExchangeBuffers& buffers, const TensorRef& gradient) const;

  /// How often plan() has returned true.
  std::size_t plans() const { return plans_.load(); }
  std::vector<MemoryReportEntry> memory_report() const;

 private:
  /// Rows and keys that devices ask each other for: of owner o by device r.
  class Counts;

  void request(const OpContext& context, LookupPlan& plan, std::int64_t row_count);
  Counts exchange_counts(const OpContext& context);
  bool worth_it(const Counts& counts, std::size_t samples) const;
  void place(const OpContext& context, LookupPlan& plan, const SparseTensor& csr,
             const Counts& counts);
  void reserve_request(std::size_t n);
  void reserve_placing(std::size_t n);

  const SparseEmbeddingHashParams& params_;
  GPUResource& gpu_;
  std::string owner_;
  const SlotDistribution& distribution_;
  std::size_t devices_, rank_;
  std::atomic<std::size_t> plans_{0};

  // Used within one plan, by the plan stream alone.
  std::shared_ptr<DeviceBuffer2> counts_arena_, staging_arena_, request_arena_, placing_arena_;
  TensorBag2 counts_, all_counts_;  ///< (2, N), (N, 2, N)
  Tensor2<std::int64_t> counts_on_host_;
  std::size_t request_keys_ = 0, placing_keys_ = 0;
  TensorBag2 requests_;  ///< owner
  /// Asker: keys in the order of the rows that come, where the owners' runs begin, the bucket of
  /// each key.
  TensorBag2 keys_, offsets_, buckets_;
};

}  // namespace hugectr
