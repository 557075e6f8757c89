// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/embedding/exchange/exchange.hpp"
#include "core/cpp/embedding/exchange/replica_keys.hpp"

namespace hugectr {

/// Gradients of tables that every device has: each device sums those of its samples by row, the
/// sums of all devices come together on each of them, and every device makes the same update with
/// the same bits. Forward is a look-up, as the pooled exchange does it.
///
/// A table's sums are either added up on their way (one all-reduce of all such tables, float32), or
/// come as they are (all-gather, in the type of the gradient) and are added up by the update:
/// whichever moves fewer bytes, which devices find alike, because they have the same list of keys.
class ReplicaExchange final : public Exchange {
 public:
  /// For at most `tables` tables at once.
  ReplicaExchange(GPUResource& gpu, std::string owner, std::size_t devices, std::size_t tables);

  /// Bytes that a training plan of a batch of so many keys takes, and the exchange itself.
  static std::size_t size_of_plan(const SparseEmbeddingHashParams& params, std::size_t devices,
                                  std::size_t keys);
  static std::size_t size(const SparseEmbeddingHashParams& params, std::size_t keys) {
    return ReplicaKeys::size(params, keys);
  }

  ReplicaKeys& keys() { return keys_; }
  /// On the plan stream, once the rows of all shared keys are known (keys().shared()): fills
  /// plan.replica and the plan's runs. Waits.
  void plan(std::span<const ReplicaLookup> tables);
  void forward(const OpContext& context, std::span<const Shipment> tables, const Rounding& rounding,
               MicroBatch part) const override;
  /// What the runs of the plan need: (distinct, 1, d), or (N * most, 1, d). Sums of all
  /// micro-batches travel with the last one.
  void backward(const OpContext& context, std::span<Shipment> tables, const Rounding& rounding,
                MicroBatch part) const override;

  std::vector<MemoryReportEntry> memory_report() const;

 private:
  void sort_batch(const OpContext& context, std::span<const ReplicaLookup> tables);
  bool adds_up(const ReplicaLookup& table) const;
  void number_rows(const OpContext& context, const ReplicaLookup& table);
  void reserve_sums(std::span<const ReplicaLookup> tables) const;
  void reserve_numbers(std::size_t rows, std::size_t distinct);

  GPUResource& gpu_;
  std::string owner_;
  std::size_t devices_;
  ReplicaKeys keys_;
  std::unique_ptr<Exchange> pooled_;

  // Used within one plan, by the plan stream alone.
  std::shared_ptr<DeviceBuffer2> staging_, numbers_arena_;
  Tensor2<std::int64_t> found_;  ///< (tables), on the host
  std::size_t rows_ = 0, distinct_ = 0;
  TensorBag2 numbers_;         ///< of each row of a table its number in the batch
  TensorBag2 firsts_, order_;  ///< of distinct rows: their first place, and they by it
  TensorBag2 unused_rows_, unused_offsets_, unused_count_;
};

}  // namespace hugectr
