// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/embedding/exchange/exchange.hpp"
#include "core/cpp/embedding/exchange/unique_exchange.hpp"

namespace hugectr {

/// Gradients of tables that every device has: each device sums those of its samples by row, one
/// all-reduce in float32 brings the sums of all tables together, and every device makes the same
/// update with the same bits. Forward is a look-up, as the pooled exchange does it.
///
/// plan() chooses it for a batch whose distinct rows move fewer bytes than the gradients of all
/// buckets; the others' gradients are gathered by the pooled exchange. Devices see the same keys
/// and therefore choose alike without a word.
class ReplicaExchange final : public Exchange {
 public:
  /// For at most `tables` tables at once whose sums are `sums` numbers at most.
  ReplicaExchange(GPUResource& gpu, std::string owner, std::size_t tables, std::size_t sums);

  /// Most numbers that sums of a table's rows may be in a batch that travels so.
  static std::size_t most_sums(const SparseEmbeddingHashParams& params);
  /// Bytes that it holds for one table whose batches have so many keys, but for 4 a row of it.
  static std::size_t size(const SparseEmbeddingHashParams& params, std::size_t keys);

  /// On the plan stream, once the plans' rows are known: of the tables whose sums are to travel
  /// fills plan.replica (used is then true) and the plan's runs. Waits.
  void plan(std::span<const PlannedLookup> tables);
  void forward(const OpContext& context, std::span<const Shipment> tables,
               const Rounding& rounding) const override;
  /// The sums of all devices (distinct, 1, d) float32, which are the buckets of the plan's runs.
  void backward(const OpContext& context, std::span<Shipment> tables,
                const Rounding& rounding) const override;

  std::vector<MemoryReportEntry> memory_report() const;

 private:
  void sort_batch(const OpContext& context, const PlannedLookup& table, std::int64_t* found) const;
  void number_rows(const OpContext& context, const PlannedLookup& table, TensorRef numbers) const;
  void sort_own_samples(const OpContext& context, const PlannedLookup& table, std::size_t first,
                        std::int64_t* found) const;
  static bool worth_it(const PlannedLookup& table, std::size_t distinct);
  void reserve_keys(std::size_t n);
  void reserve_numbers(std::size_t rows);

  GPUResource& gpu_;
  std::string owner_;
  std::unique_ptr<Exchange> gather_;

  // Used within one plan, by the plan stream alone.
  std::shared_ptr<DeviceBuffer2> staging_, keys_arena_, numbers_arena_;
  Tensor2<std::int64_t> found_;  ///< (tables, 2), on the host
  std::size_t keys_ = 0, rows_ = 0;
  TensorBag2 counting_;        ///< 0, 1, 2, ...: constant
  TensorBag2 firsts_, order_;  ///< of distinct rows: their first key, and they by it
  TensorBag2 unused_rows_, unused_offsets_, unused_count_, scratch_;
  TensorBag2 own_offsets_, own_buckets_;
  TensorBag2 numbers_;  ///< of each row of the tables its number in the batch
  // Used by the stream that updates, while the next plan is made.
  std::shared_ptr<DeviceBuffer2> sums_arena_;
  TensorBag2 sums_;  ///< float32, table after table
};

}  // namespace hugectr
