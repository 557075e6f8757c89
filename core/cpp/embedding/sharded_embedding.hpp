// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "core/cpp/embedding/embedding.hpp"
#include "core/cpp/embedding/embedding_data.hpp"

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
  void drop_plan(PlanSlot slot) override;
  void forward(std::size_t local_id, PlanSlot slot, TensorRef output) override;
  void backward_and_update(std::size_t local_id, PlanSlot slot, TensorRef gradient, TensorRef lr,
                           TensorRef step, TensorRef unscale) override;

  void freeze() override { trainable_ = false; }
  void unfreeze() override { trainable_ = true; }
  bool is_trainable() const override { return trainable_; }

  BufferBag dump(bool with_states) override;
  void load(const BufferBag& rows) override;
  void reset() override;
  void reset_optimizer() override;
  TableStats stats() const override;
  std::vector<MemoryReportEntry> memory_report() const override;

 private:
  using Data = EmbeddingData<Key>;
  /// The rows of a load() that one device owns.
  struct Share {
    std::vector<std::size_t> source;  ///< positions in the BufferBag
    std::shared_ptr<DeviceBuffer2> arena;
    TensorBag2 keys, slots, rows;
    std::size_t rows_before = 0;
  };

  void filter(Data& data, LookupPlan& plan, const SparseTensor& csr);
  void make_plan(Data& data, LookupPlan& plan, const SparseTensor& csr, bool train);
  void insert_keys(Data& data, LookupPlan& plan, const TensorRef& keys);
  void sort_lookups(Data& data, LookupPlan& plan) const;
  void check_reserved(Data& data, const LookupPlan& plan, std::int64_t first_reserved) const;
  [[noreturn]] void throw_over_budget(const Data& data, std::size_t rows) const;
  LookupPlan& planned(Data& data, PlanSlot slot, const TensorRef& vectors) const;

  std::vector<Share> split(const BufferBag& rows) const;
  void insert_share(Data& data, const BufferBag& rows, Share& share);
  void write_share(Data& data, const BufferBag& rows, const Share& share);
  void require_no_plan(const char* what) const;

  SparseEmbeddingHashParams params_;
  std::shared_ptr<ResourceManager> resources_;
  std::vector<std::unique_ptr<Data>> devices_;
  bool trainable_ = true;
};

}  // namespace hugectr
