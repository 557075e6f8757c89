// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/model_tables.hpp"

#include <algorithm>
#include <utility>

namespace hugectr {

ModelTables::ModelTables(const std::vector<SparseEmbeddingHashParams>& embeddings,
                         std::vector<std::size_t> sparse_inputs,
                         const std::shared_ptr<ResourceManager>& resources)
    : sparse_inputs_(std::move(sparse_inputs)) {
  for (std::size_t i = 0; i < embeddings.size(); ++i) {
    groups_.push_back({std::make_unique<LookupGroup>(std::vector{embeddings[i]}, resources), {i}});
  }
  tables_.resize(embeddings.size());
  for (const Group& group : groups_) {
    for (std::size_t t = 0; t < group.members.size(); ++t) {
      tables_[group.members[t]] = &group.lookup->table(t);
    }
  }
}

void ModelTables::plan(std::size_t local_id, const std::vector<SparseTensor>& inputs, PlanSlot slot,
                       bool train) {
  for (const Group& group : groups_) {
    std::vector<SparseTensor> keys;
    for (const std::size_t i : group.members) keys.push_back(inputs[sparse_inputs_[i]]);
    group.lookup->plan(local_id, keys, slot, train);
  }
}

void ModelTables::wait_for_slot(std::size_t local_id, PlanSlot slot) {
  for (const Group& group : groups_) group.lookup->wait_for_slot(local_id, slot);
}

void ModelTables::drop_plan(PlanSlot slot) {
  for (const Group& group : groups_) group.lookup->drop_plan(slot);
}

std::vector<TensorRef> ModelTables::vectors_of(const Group& group, const VectorsOf& vectors) {
  std::vector<TensorRef> refs;
  for (const std::size_t i : group.members) refs.push_back(vectors(i));
  return refs;
}

void ModelTables::forward(std::size_t local_id, PlanSlot slot, const VectorsOf& output) {
  for (const Group& group : groups_) {
    group.lookup->forward(local_id, slot, vectors_of(group, output));
  }
}

void ModelTables::backward_and_update(std::size_t local_id, PlanSlot slot,
                                      const VectorsOf& gradient, const UpdateScalars& scalars,
                                      bool beside) {
  for (const Group& group : groups_) {
    const std::vector<TensorRef> gradients = vectors_of(group, gradient);
    const bool none = std::all_of(gradients.begin(), gradients.end(),
                                  [](const TensorRef& ref) { return ref.empty(); });
    if (none) continue;  // nothing of the loss depends on these tables
    group.lookup->backward_and_update(local_id, slot, gradients, scalars, beside);
  }
}

std::vector<MemoryReportEntry> ModelTables::memory_report() const {
  std::vector<MemoryReportEntry> report;
  for (const Group& group : groups_) {
    const auto part = group.lookup->memory_report();
    report.insert(report.end(), part.begin(), part.end());
  }
  return report;
}

}  // namespace hugectr
