// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "core/cpp/embedding/lookup/lookup_group.hpp"
#include "core/cpp/embedding/lookup/table_input.hpp"

namespace hugectr {

/// The tables of a model, numbered as its embeddings are, in the groups they travel in: all that
/// may travel together do, unless HUGECTR_GROUP=0 lets each go alone, with the same result. Callers
/// name a table and need not know its group.
class ModelTables {
 public:
  /// inputs[i]: which sparse inputs of a batch embedding i reads.
  ModelTables(const std::vector<SparseEmbeddingHashParams>& embeddings,
              std::vector<TableInput> inputs, const std::shared_ptr<ResourceManager>& resources);

  std::size_t size() const { return tables_.size(); }
  /// The sparse inputs that a table reads.
  const TableInput& input_of(std::size_t i) const { return inputs_.at(i); }
  ShardedTable& operator[](std::size_t i) { return *tables_.at(i); }
  const ShardedTable& operator[](std::size_t i) const { return *tables_.at(i); }

  // As of a LookupGroup, for all groups.
  void plan(std::size_t local_id, const std::vector<SparseTensor>& inputs, PlanSlot slot,
            bool train);
  void wait_for_slot(std::size_t local_id, PlanSlot slot);
  void drop_plan(PlanSlot slot);
  /// A table's vectors by its number.
  using VectorsOf = std::function<TensorRef(std::size_t)>;
  void forward(std::size_t local_id, PlanSlot slot, const VectorsOf& output,
               const TensorRef& step = {}, bool beside = false, MicroBatch part = {});
  void send_gradients(std::size_t local_id, PlanSlot slot, const VectorsOf& gradient,
                      const TensorRef& step, bool beside, MicroBatch part);
  void bring_gradients(std::size_t local_id, PlanSlot slot, const VectorsOf& gradient,
                       const TensorRef& squares, const TensorRef& step);
  void backward_and_update(std::size_t local_id, PlanSlot slot, const VectorsOf& gradient,
                           const UpdateScalars& scalars, bool beside);

  /// Whether tables forget rows behind a step.
  bool evicts_after(std::int64_t step) const;
  /// Lets go what is to go behind a step, when nothing is planned and all streams have been waited
  /// for. Collective.
  void evict(std::int64_t step);

  std::vector<MemoryReportEntry> memory_report() const;

 private:
  struct Group {
    std::unique_ptr<LookupGroup> lookup;
    std::vector<std::size_t> members;  ///< numbers of its tables
  };
  static std::vector<TensorRef> vectors_of(const Group& group, const VectorsOf& vectors);
  /// What its tables have as times of samples; empty: they have none.
  std::vector<SparseTensor> times_of(const Group& group,
                                     const std::vector<SparseTensor>& inputs) const;
  /// f(group, gradients of its tables) for those that the loss depends on.
  template <class F>
  void for_each_trained(const VectorsOf& gradient, const F& f);
  /// Keys of several inputs, a table and plan slot each.
  using JoinedOfDevice = std::array<std::vector<JoinedKeys>, kPlanSlots>;

  std::shared_ptr<ResourceManager> resources_;
  std::vector<TableInput> inputs_;
  std::vector<JoinedOfDevice> joined_;  ///< one a local device
  std::vector<Group> groups_;
  std::vector<ShardedTable*> tables_;
};

}  // namespace hugectr
