// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/model_tables.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace hugectr {
namespace {

/// HUGECTR_GROUP=0: every table travels alone.
bool grouping() {
  const char* value = std::getenv("HUGECTR_GROUP");
  return value == nullptr || std::string_view(value) != "0";
}

/// Numbers of the tables that travel together, in the order of the first of each group.
std::vector<std::vector<std::size_t>> groups_of(
    const std::vector<SparseEmbeddingHashParams>& embeddings) {
  const bool together = grouping();
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < embeddings.size(); ++i) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& members) {
      return together && may_travel_together(embeddings[members.front()], embeddings[i]);
    });
    if (group == groups.end()) {
      groups.push_back({i});
    } else {
      group->push_back(i);
    }
  }
  return groups;
}

}  // namespace

ModelTables::ModelTables(const std::vector<SparseEmbeddingHashParams>& embeddings,
                         std::vector<TableInput> inputs,
                         const std::shared_ptr<ResourceManager>& resources)
    : resources_(resources), inputs_(std::move(inputs)), joined_(resources->get_local_gpu_count()) {
  for (JoinedOfDevice& device : joined_) {
    for (std::vector<JoinedKeys>& slot : device) slot.resize(inputs_.size());
  }
  for (const std::vector<std::size_t>& members : groups_of(embeddings)) {
    std::vector<SparseEmbeddingHashParams> params;
    for (const std::size_t i : members) params.push_back(embeddings[i]);
    groups_.push_back({std::make_unique<LookupGroup>(params, resources), members});
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
  GPUResource& gpu = resources_->get_local_gpu(local_id);
  std::vector<JoinedKeys>& joined = joined_[local_id][static_cast<std::size_t>(slot)];
  for (const Group& group : groups_) {
    const bool joins =
        std::ranges::any_of(group.members, [this](std::size_t i) { return inputs_[i].joins(); });
    if (joins) group.lookup->wait_for_slot(local_id, slot);  // who reads what is joined there
    std::vector<SparseTensor> keys;
    for (const std::size_t i : group.members) {
      keys.push_back(joined[i].join(gpu.plan_context(), gpu.memory_resource(),
                                    (*this)[i].part(local_id).owner() + " inputs", inputs_[i],
                                    inputs));
    }
    if (train) group.lookup->take_times(local_id, times_of(group, inputs), slot);
    group.lookup->plan(local_id, keys, slot, train);
  }
}

std::vector<SparseTensor> ModelTables::times_of(const Group& group,
                                                const std::vector<SparseTensor>& inputs) const {
  std::vector<SparseTensor> times;
  for (const std::size_t i : group.members) {
    times.push_back(inputs_[i].times ? inputs.at(*inputs_[i].times) : SparseTensor{});
  }
  return times;
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

void ModelTables::forward(std::size_t local_id, PlanSlot slot, const VectorsOf& output,
                          const TensorRef& step, bool beside, MicroBatch part) {
  for (const Group& group : groups_) {
    group.lookup->forward(local_id, slot, vectors_of(group, output), step, beside, part);
  }
}

template <class F>
void ModelTables::for_each_trained(const VectorsOf& gradient, const F& f) {
  for (const Group& group : groups_) {
    const std::vector<TensorRef> gradients = vectors_of(group, gradient);
    const bool none = std::all_of(gradients.begin(), gradients.end(),
                                  [](const TensorRef& ref) { return ref.empty(); });
    if (!none) f(*group.lookup, gradients);
  }
}

void ModelTables::send_gradients(std::size_t local_id, PlanSlot slot, const VectorsOf& gradient,
                                 const TensorRef& step, bool beside, MicroBatch part) {
  for_each_trained(gradient, [&](LookupGroup& lookup, const std::vector<TensorRef>& gradients) {
    lookup.send_gradients(local_id, slot, gradients, step, beside, part);
  });
}

void ModelTables::bring_gradients(std::size_t local_id, PlanSlot slot, const VectorsOf& gradient,
                                  const TensorRef& squares, const TensorRef& step) {
  for_each_trained(gradient, [&](LookupGroup& lookup, const std::vector<TensorRef>& gradients) {
    lookup.bring_gradients(local_id, slot, gradients, squares, step);
  });
}

void ModelTables::backward_and_update(std::size_t local_id, PlanSlot slot,
                                      const VectorsOf& gradient, const UpdateScalars& scalars,
                                      bool beside) {
  for_each_trained(gradient, [&](LookupGroup& lookup, const std::vector<TensorRef>& gradients) {
    lookup.backward_and_update(local_id, slot, gradients, scalars, beside);
  });
}

bool ModelTables::evicts_after(std::int64_t step) const {
  return std::ranges::any_of(
      tables_, [&](const ShardedTable* table) { return table->params().life.evicts_after(step); });
}

void ModelTables::evict(std::int64_t step) {
  for (ShardedTable* table : tables_) {
    if (table->params().life.evicts_after(step)) table->evict(step);
  }
}

std::vector<MemoryReportEntry> ModelTables::memory_report() const {
  std::vector<MemoryReportEntry> report;
  for (const Group& group : groups_) {
    const auto part = group.lookup->memory_report();
    report.insert(report.end(), part.begin(), part.end());
  }
  for (const JoinedOfDevice& device : joined_) {
    for (const std::vector<JoinedKeys>& slot : device) {
      for (const JoinedKeys& keys : slot) {
        if (!keys.arena()) continue;
        const auto part = keys.arena()->report();
        report.insert(report.end(), part.begin(), part.end());
      }
    }
  }
  return report;
}

}  // namespace hugectr
