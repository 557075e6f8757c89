// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/embedding/hash_table.hpp"
#include "core/cpp/embedding/lookup_plan.hpp"
#include "core/cpp/embedding/slot_distribution.hpp"
#include "core/cpp/embedding/unique_exchange.hpp"

namespace hugectr {

/// One device's part of a table and the buffers of its steps.
///
/// Who touches what: the index (`table`) only the plan stream; rows of `weights`, `states` and
/// `last_step` from `plan.rows_after` on only the plan stream, the rows before only the compute
/// stream. That is why planning may overlap training.
template <class Key>
struct EmbeddingData {
  EmbeddingData(const SparseEmbeddingHashParams& params, GPUResource& gpu,
                std::size_t device_count);

  std::string where() const { return to_string(gpu.device()); }
  LookupPlan& plan(PlanSlot slot) { return plans[static_cast<std::size_t>(slot)]; }
  /// Makes the rows themselves usable up to `rows`. Throws OutOfMemory.
  void grow_rows(std::size_t rows);
  /// Writes the first content of rows [first, last); without `weights` only their states.
  void init_rows(const OpContext& context, const SparseEmbeddingHashParams& params,
                 std::uint64_t seed, std::size_t first, std::size_t last, bool with_weights) const;
  std::vector<TensorRef> state_rows(std::size_t rows) const;
  TensorRef last_step_rows(std::size_t rows) const;
  TensorRef stamp_rows(std::size_t rows) const;
  ExchangeBuffers exchange() const { return {pooled.ref(), packed.ref()}; }
  std::size_t size_in_bytes() const;

  GPUResource& gpu;
  std::shared_ptr<MemoryResource> memory;
  std::string owner;  ///< table and device, for reports
  std::unique_ptr<SlotDistribution> distribution;
  std::size_t max_rows = 0;
  bool has_budget = false;
  HashTable<Key> table;
  GrowableTensor weights, last_step;
  GrowableTensor stamps;  ///< uint32: the mark at which a row was last touched; unused until mark()
  std::vector<GrowableTensor> states;
  /// Rows that have trained: what evaluation and dumps may see.
  std::atomic<std::size_t> trained_rows{0};
  std::array<LookupPlan, 3> plans;
  Tensor2<std::uint32_t> own_count;  ///< staging: what filter_keys kept
  std::shared_ptr<DeviceBuffer2> exchange_arena;
  TensorBag2 pooled, packed;
  std::unique_ptr<UniqueExchange> unique;  ///< null: vectors travel pooled, or not at all
};

/// Rows a device may hold under the settings; 0 = no bound.
std::size_t row_budget(const SparseEmbeddingHashParams& params, std::size_t rank,
                       std::size_t device_count);

extern template struct EmbeddingData<std::uint32_t>;
extern template struct EmbeddingData<std::int64_t>;

}  // namespace hugectr
