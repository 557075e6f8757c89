// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/lookup/device_lookup.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/lookup/row_updates.hpp"
#include "core/cpp/ops/clip_norm.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

/// What a step does with a plan; how plans are made is in plan_making.cpp.
namespace hugectr {
namespace {

bool is_real(TensorScalarType type) {
  return type == TensorScalarType::Float32 || type == TensorScalarType::Float16 ||
         type == TensorScalarType::BFloat16;
}

}  // namespace

DeviceLookup::DeviceLookup(const std::vector<std::unique_ptr<ShardedTable>>& tables,
                           GPUResource& gpu)
    : gpu_(gpu), pooled_(make_pooled_exchange()) {
  std::size_t devices = 1, sending_rows = 0;
  for (const auto& table : tables) {
    Table& rows = table->part(gpu.get_local_id());
    const SparseEmbeddingHashParams& params = table->params();
    devices = table->placement().device_count();
    const bool may_send_rows = devices > 1 && params.exchange != ExchangeType::Pooled;
    parts_.push_back({*table, rows,
                      Route(params, table->placement(), gpu.get_global_id(), gpu.memory_resource(),
                            rows.owner()),
                      may_send_rows,
                      PositionStarts(params, gpu.plan_stream(), gpu.memory_resource())});
    sending_rows += may_send_rows ? 1 : 0;
  }
  owner_ = parts_.front().rows.owner();
  if (parts_.size() > 1) owner_ += concat(" and ", parts_.size() - 1, " more");
  exchanges_.push_back(pooled_.get());
  if (sending_rows > 0) {
    unique_ = std::make_unique<UniqueExchange>(gpu, owner_, devices, sending_rows);
    exchanges_.push_back(unique_.get());
  }
  while (plans_.size() < kPlanSlots) add_slot();
  auto staging =
      DeviceBuffer2::create(owner_ + " own count", DeviceAllocator(gpu.staging_resource()));
  staging->reserve({parts_.size()}, &own_counts_, "own count");
  staging->allocate();
}

PlanSlot DeviceLookup::add_slot() {
  LookupPlan& plan = plans_.emplace_back();
  plan.slot = plans_.size() - 1;
  plan.tables.resize(parts_.size());
  plan.ready = gpu_.create_event();
  plan.released = gpu_.create_event();
  return static_cast<PlanSlot>(plan.slot);
}

void DeviceLookup::drop_plan(PlanSlot slot) {
  const LookupPlan& dropped = plans_.at(at(slot));
  if (!dropped.waits_to_train()) return;
  const std::uint64_t first = dropped.number;
  const OpContext context = gpu_.plan_context();
  try {
    context.stream->synchronize();
  } catch (const std::exception&) {  // what failed the plan has been reported
  }
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const HashTable::State& before = dropped.tables[t].before;
    if (parts_[t].rows.state() != before) parts_[t].rows.take_back(context, before);
  }
  // A newer plan may use rows that are gone now: it goes too.
  for (LookupPlan& plan : plans_) {
    if (!plan.waits_to_train() || plan.number < first) continue;
    plan.state = LookupPlan::State::Empty;
    for (TablePlan& table : plan.tables) table.pin.reset();
  }
  context.stream->synchronize();
}

LookupPlan& DeviceLookup::planned(PlanSlot slot, std::span<const TensorRef> vectors) {
  LookupPlan& plan = plans_.at(at(slot));
  HCTR_CHECK(vectors.size() == parts_.size(), "a group of ", parts_.size(),
             " tables got vectors of ", vectors.size());
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const SparseEmbeddingHashParams& params = parts_[t].table.params();
    const TablePlan& own = plan.tables[t];
    HCTR_CHECK(
        plan.state != LookupPlan::State::Empty && own.generation == parts_[t].rows.generation(),
        "embedding '", params.name, "': this batch has no plan");
    if (vectors[t].empty()) continue;
    const Shape wanted{own.samples / parts_[t].route.device_count(), params.buckets_per_sample(),
                       params.embedding_vec_size};
    HCTR_CHECK(vectors[t].shape == wanted, "embedding '", params.name, "': its vectors have shape ",
               to_string(wanted), ", got ", to_string(vectors[t].shape));
    HCTR_CHECK(
        is_real(vectors[t].dtype) && size_of(vectors[t].dtype) <= size_of(params.output_type),
        "embedding '", params.name, "': its vectors can not be ", to_string(vectors[t].dtype),
        ", its output_type is ", to_string(params.output_type));
  }
  return plan;
}

std::vector<Shipment> DeviceLookup::shipments(const LookupPlan& plan,
                                              std::span<const TensorRef> vectors,
                                              const Exchange* exchange, bool training) const {
  std::vector<Shipment> tables;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const bool left_out = vectors[t].empty() || (training && !parts_[t].table.is_trainable());
    if (plan.tables[t].exchange != exchange || left_out) continue;
    tables.push_back({t, &parts_[t].route, &plan.tables[t], vectors[t]});
  }
  return tables;
}

void DeviceLookup::forward(PlanSlot slot, std::span<const TensorRef> outputs) {
  LookupPlan& plan = planned(slot, outputs);
  const OpContext context = gpu_.compute_context();
  context.stream->wait(*plan.ready);
  for (const Exchange* exchange : exchanges_) {
    const std::vector<Shipment> tables = shipments(plan, outputs, exchange, false);
    if (!tables.empty()) exchange->forward(context, tables);
  }
  context.stream->record(*plan.released);
}

std::vector<Shipment> DeviceLookup::backward(const OpContext& context, const LookupPlan& plan,
                                             std::span<const TensorRef> gradients,
                                             const Exchange* exchange) const {
  std::vector<Shipment> tables = shipments(plan, gradients, exchange, true);
  if (!tables.empty()) exchange->backward(context, tables);
  return tables;
}

void DeviceLookup::bring_gradients(PlanSlot slot, std::span<const TensorRef> gradients,
                                   const TensorRef& squares) {
  const LookupPlan& plan = planned(slot, gradients);
  const OpContext context = gpu_.compute_context();
  context.stream->wait(*plan.ready);
  brought_.clear();
  for (const Exchange* exchange : exchanges_) {
    brought_.push_back(backward(context, plan, gradients, exchange));
    for (const Shipment& gradient : brought_.back()) {
      if (gradient.route->own_slots() == 0) continue;
      const TablePlan& own = *gradient.plan;
      run(context, RowSquareSum{.sorted_buckets = own.sorted_buckets.ref(),
                                .run_offsets = own.run_offsets.ref(),
                                .run_count = own.run_count.ref(),
                                .gradient = gradient.vectors,
                                .scale = own.run_scale,
                                .sum = squares});
    }
  }
}

void DeviceLookup::backward_and_update(PlanSlot slot, std::span<const TensorRef> gradients,
                                       const UpdateScalars& scalars, bool beside) {
  LookupPlan& plan = planned(slot, gradients);
  HCTR_CHECK(plan.train, "embedding '", parts_.front().table.params().name,
             "': an evaluation plan can not train");
  const OpContext context = beside ? gpu_.exchange_context() : gpu_.compute_context();
  context.stream->wait(*plan.ready);
  if (brought_.empty()) {
    for (const Exchange* exchange : exchanges_) {
      update(context, backward(context, plan, gradients, exchange), scalars);
    }
  }
  for (const std::vector<Shipment>& tables : brought_) update(context, tables, scalars);
  brought_.clear();
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    if (gradients[t].empty()) continue;
    ShardedTable& table = parts_[t].table;
    TablePlan& own = plan.tables[t];
    const bool trains = table.is_trainable();
    // A frozen table changes by its new rows only.
    table.note_touched(context, own.stamps, own.unique_rows.ref(), own.run_count.ref(),
                       trains ? 0 : own.before.rows,
                       trains && sweeps_untouched_rows(table.params().opt_params));
    if (!trains && !own.reused.empty()) {
      table.note_touched(context, own.stamps, own.reused, {}, 0, false);
    }
    parts_[t].rows.store().release(context, at(slot));
  }
  context.stream->record(*plan.released);
  plan.state = LookupPlan::State::Trained;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    plan.tables[t].pin.reset();
    if (!gradients[t].empty()) parts_[t].rows.show(plan.tables[t].extent);
  }
}

void DeviceLookup::update(const OpContext& context, std::span<const Shipment> gradients,
                          const UpdateScalars& scalars) {
  RowUpdates updates;
  for (const Shipment& gradient : gradients) {
    if (gradient.route->own_slots() == 0) continue;
    const TablePlan& plan = *gradient.plan;
    updates.add({.sorted_buckets = plan.sorted_buckets.ref(),
                 .distinct = plan.staged.distinct,
                 .run_offsets = plan.run_offsets.ref(),
                 .run_count = plan.run_count.ref(),
                 .gradient = gradient.vectors,
                 .scale = plan.run_scale},
                plan.staged.arrays, scalars, gradient.route->params().opt_params);
  }
  updates.run(context);
}

void DeviceLookup::report_memory(std::vector<MemoryReportEntry>& report) const {
  const auto append = [&](const std::shared_ptr<DeviceBuffer2>& arena) {
    if (arena) report.insert(report.end(), arena->report().begin(), arena->report().end());
  };
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    parts_[t].rows.report_memory(report);
    append(parts_[t].route.arena());
    for (const LookupPlan& plan : plans_) {
      append(plan.tables[t].filter_arena);
      append(plan.tables[t].arena);
      append(plan.tables[t].positions.arena());
      append(plan.tables[t].unique.owner_arena);
      append(plan.tables[t].unique.asker_arena);
    }
  }
  if (!unique_) return;
  for (const MemoryReportEntry& entry : unique_->memory_report()) report.push_back(entry);
}

}  // namespace hugectr
