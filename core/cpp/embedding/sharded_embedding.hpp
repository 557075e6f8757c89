// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "core/cpp/embedding/embedding.hpp"
#include "core/cpp/embedding/embedding_data.hpp"
#include "core/cpp/embedding/row_transfer.hpp"

namespace hugectr {

/// The one embedding: a table split over devices. What a Distributed and a Localized table do
/// differently is in SlotDistribution, what a key type changes is in HashTable<Key>.
template <class Key>
class ShardedEmbedding final : public IEmbedding {
 public:
  ShardedEmbedding(const SparseEmbeddingHashParams& params,
                   std::shared_ptr<ResourceManager> resources);
  /// Waits for the plan streams: plan() leaves work there that uses this object's memory.
  ~ShardedEmbedding() override;

  const SparseEmbeddingHashParams& get_embedding_params() const override { return params_; }

  void plan(std::size_t local_id, const SparseTensor& csr, PlanSlot slot, bool train) override;
  void wait_for_slot(std::size_t local_id, PlanSlot slot) override;
  void drop_plan(PlanSlot slot) override;
  void forward(std::size_t local_id, PlanSlot slot, TensorRef output) override;
  void backward_and_update(std::size_t local_id, PlanSlot slot, TensorRef gradient, TensorRef lr,
                           TensorRef step, TensorRef unscale, bool beside) override;

  void freeze() override { trainable_ = false; }
  void unfreeze() override { trainable_ = true; }
  bool is_trainable() const override { return trainable_; }

  BufferBag dump(bool with_states) override;
  RowOrder order(RowMark since) override;
  void read(const RowOrder& order, std::size_t begin, std::size_t end,
            const RowValues& values) override;
  std::size_t state_count() const override;
  bool has_last_step() const override;
  RowMark mark() override;
  bool knows_since(RowMark since) const override;
  std::vector<std::uint32_t> row_processes(
      const std::vector<std::int64_t>& keys,
      const std::vector<std::uint64_t>& slot_ids) const override;
  void load(const RowView& rows) override;
  void reset() override;
  void reset_optimizer() override;
  TableRows rows(std::size_t local_id) const override;
  TableStats stats() const override;
  std::vector<MemoryReportEntry> memory_report() const override;

 private:
  using Data = EmbeddingData<Key>;
  /// The rows of a load() that one device owns.
  struct Share {
    std::size_t size = 0;
    std::vector<std::size_t> source;  ///< places in what is loaded; empty: i is i
    std::size_t place(std::size_t i) const { return source.empty() ? i : source[i]; }
    std::shared_ptr<DeviceBuffer2> arena;
    TensorBag2 keys, slots, rows;
    std::size_t rows_before = 0;
    std::vector<std::uint32_t> targets;  ///< row on the device of each; kNoRow: a later one counts
    std::unique_ptr<RowTransfer> transfer;
  };

  void filter(Data& data, LookupPlan& plan, const SparseTensor& csr);
  void make_plan(Data& data, LookupPlan& plan, const SparseTensor& csr, bool train);
  void insert_keys(Data& data, LookupPlan& plan, const TensorRef& keys);
  void sort_lookups(Data& data, LookupPlan& plan) const;
  void check_reserved(Data& data, const LookupPlan& plan, std::int64_t first_reserved) const;
  [[noreturn]] void throw_over_budget(const Data& data, std::size_t rows) const;
  LookupPlan& planned(Data& data, PlanSlot slot, const TensorRef& vectors) const;

  /// Throws for a key or slot the table can not have.
  std::size_t owner(std::int64_t key, std::size_t slot) const;
  void stamp(const OpContext& context, const TensorRef& stamps, const TensorRef& rows,
             const TensorRef& count, std::size_t first) const;
  std::vector<Share> split(const RowView& rows) const;
  /// Bytes of the widest part of a row.
  std::size_t widest_row() const {
    return std::max(params_.embedding_vec_size * sizeof(float), sizeof(std::int64_t));
  }
  void insert_share(Data& data, const RowView& rows, Share& share);
  /// All that can fail for want of memory.
  void prepare_share(Data& data, Share& share);
  void write_share(Data& data, const RowView& rows, Share& share);
  /// Replaces what lies in the table itself by copies, which it returns: they are overwritten.
  std::vector<std::vector<float>> copy_own_rows(RowView& rows) const;
  void require_no_plan(const char* what) const;

  const std::uint64_t number_;  ///< of this table among all of the process, from 1
  SparseEmbeddingHashParams params_;
  std::shared_ptr<ResourceManager> resources_;
  std::vector<std::unique_ptr<Data>> devices_;
  bool trainable_ = true;
  RowMark now_ = 0;                      ///< the last mark; 0: rows are not noted
  RowMark forgotten_ = 0;                ///< the last mark before rows were forgotten
  std::atomic<RowMark> all_touched_{0};  ///< the last mark before an update touched every row
};

}  // namespace hugectr
