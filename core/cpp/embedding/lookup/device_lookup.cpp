// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/lookup/device_lookup.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/cpp/base/log.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/lookup/row_updates.hpp"
#include "core/cpp/ops/add.hpp"
#include "core/cpp/ops/clip_norm.hpp"
#include "core/cpp/ops/row_times.hpp"
#include "core/cpp/ops/score_rows.hpp"
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
    : gpu_(gpu),
      tables_(tables.size()),
      own_steps_(gpu),
      pooled_(make_pooled_exchange()),
      staging_(gpu) {
  for (std::size_t t = 0; t < tables_; ++t) add_part(t, *tables[t], false);
  for (std::size_t t = 0; t < tables_; ++t) {
    if (!tables[t]->frequent_placement()) continue;
    parts_[t].frequent_part = parts_.size();
    add_part(t, *tables[t], true);
  }
  const std::size_t devices = parts_.front().route.device_count();
  micro_batches_ = parts_.front().table.params().micro_batches;
  std::size_t sending_rows = 0, on_all = 0;
  for (const Part& part : parts_) {
    sending_rows += part.may_send_rows ? 1 : 0;
    on_all += part.route.of_own_samples() ? 1 : 0;
  }
  owner_ = parts_.front().rows.owner();
  if (parts_.size() > 1) owner_ += concat(" and ", parts_.size() - 1, " more");
  exchanges_.push_back(pooled_.get());
  if (sending_rows > 0) {
    unique_ = std::make_unique<UniqueExchange>(gpu, owner_, devices, micro_batches_, sending_rows);
    exchanges_.push_back(unique_.get());
  }
  if (on_all > 0) {
    replica_ = std::make_unique<ReplicaExchange>(gpu, owner_, devices, on_all);
    exchanges_.push_back(replica_.get());
  }
  while (plans_.size() < kPlanSlots) add_slot();
  auto staging =
      DeviceBuffer2::create(owner_ + " own count", DeviceAllocator(gpu.staging_resource()));
  staging->reserve({parts_.size(), 2}, &own_ends_, "own count");
  staging->allocate();
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const RowLife& life = parts_[t].table.params().life;
    if (life.max_rows > 0 && life.evict == Eviction::None) bounded_.push_back(t);
  }
  if (bounded_.empty() || devices == 1) return;
  const auto counts = DeviceBuffer2::create(owner_ + " rows of all devices",
                                            DeviceAllocator(gpu.memory_resource()));
  live_rows_ = counts->reserve({bounded_.size()}, TensorScalarType::Int64, "own");
  live_rows_of_all_ =
      counts->reserve({devices, bounded_.size()}, TensorScalarType::Int64, "of all devices");
  counts->allocate();
}

void DeviceLookup::add_part(std::size_t number, ShardedTable& table, bool frequent) {
  const SparseEmbeddingHashParams& params = table.params();
  const std::size_t id = gpu_.get_local_id();
  const Placement& placement = frequent ? *table.frequent_placement() : table.placement();
  Table& rows = frequent ? table.frequent_part(id) : table.part(id);
  const bool whole_rows_nowhere =
      !placement.rows_may_travel() && !placement.replicated() && placement.device_count() > 1;
  if (whole_rows_nowhere && params.exchange == ExchangeType::Unique && gpu_.get_global_id() == 0) {
    log(LogLevel::Warning,
        concat(
            "embedding '", params.name,
            "' is placed by column, so that no device has whole rows to send: its vectors travel "
            "pooled, column by column, and exchange 'unique' does nothing"));
  }
  const bool may_choose = placement.device_count() > 1 && params.exchange != ExchangeType::Pooled;
  parts_.push_back(
      {number, table, rows,
       Route(params, placement, gpu_.get_global_id(), gpu_.memory_resource(), rows.owner()),
       placement.slots_of(gpu_.get_global_id()) > 0, may_choose && placement.rows_may_travel(),
       PositionStarts(params, gpu_.plan_stream(), gpu_.memory_resource()),
       frequent
           ? std::make_unique<FrequentKeys>(gpu_, rows.owner(), params.key_type(), params.frequent)
           : nullptr});
}

PlanSlot DeviceLookup::add_slot() {
  LookupPlan& plan = plans_.emplace_back();
  plan.slot = plans_.size() - 1;
  plan.tables.resize(parts_.size());
  brought_.emplace_back();
  plan.looked_up = gpu_.create_event();
  plan.made = gpu_.create_event();
  plan.ready = gpu_.create_event();
  plan.released = gpu_.create_event();
  return static_cast<PlanSlot>(plan.slot);
}

void DeviceLookup::drop_plan(PlanSlot slot) {
  const LookupPlan& dropped = plans_.at(at(slot));
  brought_.at(at(slot)).clear();  // gradients of a step that failed before its update
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
    // The number first: the rest of an older one belongs to its step, which may be under way.
    if (plan.number < first || !plan.waits_to_train()) continue;
    plan.state = LookupPlan::State::Empty;
    for (TablePlan& table : plan.tables) table.pin.reset();
    for (const Part& part : parts_) part.rows.store().release(plan.slot, nullptr);
  }
  context.stream->synchronize();
}

LookupPlan& DeviceLookup::planned(PlanSlot slot, std::span<const TensorRef> vectors) {
  LookupPlan& plan = plans_.at(at(slot));
  HCTR_CHECK(vectors.size() == tables_, "a group of ", tables_, " tables got vectors of ",
             vectors.size());
  for (std::size_t t = 0; t < tables_; ++t) {
    const SparseEmbeddingHashParams& params = parts_[t].table.params();
    const TablePlan& own = plan.tables[t];
    HCTR_CHECK(plan.is_made() && own.generation == parts_[t].rows.generation(), "embedding '",
               params.name, "': this batch has no plan");
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
  tables.reserve(parts_.size());
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const bool left_out = vectors[t].empty() || (training && !parts_[t].table.is_trainable());
    if (plan.tables[t].exchange != exchange || left_out) continue;
    tables.push_back({t, &parts_[t].route, &plan.tables[t], vectors[t]});
  }
  return tables;
}

void DeviceLookup::forward(PlanSlot slot, std::span<const TensorRef> outputs, const TensorRef& step,
                           bool beside, MicroBatch part) {
  LookupPlan& plan = planned(slot, outputs);
  const OpContext context = beside ? gpu_.exchange_context() : gpu_.compute_context();
  context.stream->wait(*plan.ready);
  begin_behind_update(context, plan);
  std::vector<TensorRef> all;
  const std::span<const TensorRef> vectors = of_parts(outputs, all);
  for (std::size_t p = tables_; p < parts_.size(); ++p) {
    const TensorRef& output = outputs[parts_[p].number];
    if (!output.empty()) {
      all[p] = parts_[p].route.packed(output.dtype, output.shape[0], output.shape[1]);
    }
  }
  for (const Exchange* exchange : exchanges_) {
    const std::vector<Shipment> tables = shipments(plan, vectors, exchange, false);
    if (!tables.empty()) exchange->forward(context, tables, rounding(step), part);
  }
  for (std::size_t p = tables_; p < parts_.size(); ++p) {
    const TensorRef output = part.of(outputs[parts_[p].number]);
    if (!output.empty()) run(context, AddFwd{.xs = {output, part.of(all[p])}, .y = output});
  }
  context.stream->record(*plan.released);
  if (plan.train) return;
  for (const Part& part : parts_) part.rows.store().release(plan.slot, plan.released);
}

void DeviceLookup::begin_behind_update(const OpContext& context, LookupPlan& plan) {
  std::vector<EmbeddingInit> ops;
  for (TablePlan& own : plan.tables) {
    if (!own.behind_update) continue;
    ops.push_back(*std::move(own.behind_update));
    own.behind_update.reset();
  }
  run_several(context, std::move(ops));
}

std::vector<Shipment> DeviceLookup::backward(const OpContext& context, const LookupPlan& plan,
                                             std::span<const TensorRef> gradients,
                                             const Exchange* exchange, const Rounding& rounding,
                                             MicroBatch part) const {
  std::vector<TensorRef> all;
  std::vector<Shipment> tables = shipments(plan, of_parts(gradients, all), exchange, true);
  if (!tables.empty()) exchange->backward(context, tables, rounding, part);
  return tables;
}

std::vector<Shipment> DeviceLookup::backward_all(const OpContext& context, const LookupPlan& plan,
                                                 std::span<const TensorRef> gradients,
                                                 const Exchange* exchange,
                                                 const Rounding& rounding) const {
  std::vector<Shipment> tables;
  for (std::size_t m = 0; m < micro_batches_; ++m) {
    tables = backward(context, plan, gradients, exchange, rounding, {m, micro_batches_});
  }
  return tables;
}

void DeviceLookup::send_gradients(PlanSlot slot, std::span<const TensorRef> gradients,
                                  const TensorRef& step, bool beside, MicroBatch part) {
  const LookupPlan& plan = planned(slot, gradients);
  const OpContext context = beside ? gpu_.exchange_context() : gpu_.compute_context();
  context.stream->wait(*plan.ready);
  std::vector<std::vector<Shipment>>& brought = brought_.at(at(slot));
  brought.clear();
  for (const Exchange* exchange : exchanges_) {
    brought.push_back(backward(context, plan, gradients, exchange, rounding(step), part));
  }
  if (!part.last()) brought.clear();
}

void DeviceLookup::bring_gradients(PlanSlot slot, std::span<const TensorRef> gradients,
                                   const TensorRef& squares, const TensorRef& step) {
  const LookupPlan& plan = planned(slot, gradients);
  const OpContext context = gpu_.compute_context();
  context.stream->wait(*plan.ready);
  std::vector<std::vector<Shipment>>& brought = brought_.at(at(slot));
  brought.clear();
  for (const Exchange* exchange : exchanges_) {
    brought.push_back(backward_all(context, plan, gradients, exchange, rounding(step)));
    for (const Shipment& gradient : brought.back()) {
      const Placement& placement = gradient.route->placement();
      const bool counted_elsewhere = placement.replicated() && gradient.route->rank() > 0;
      if (gradient.route->own_slots() == 0 || counted_elsewhere) continue;
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
  begin_behind_update(context, plan);
  score(context, plan, gradients, scalars.step);
  std::vector<std::vector<Shipment>>& brought = brought_.at(at(slot));
  if (brought.empty()) {
    for (const Exchange* exchange : exchanges_) {
      update(context, backward_all(context, plan, gradients, exchange, rounding(scalars.step)),
             scalars);
    }
  }
  for (const std::vector<Shipment>& tables : brought) update(context, tables, scalars);
  brought.clear();
  restart_candidates(context, plan, gradients);
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    if (gradients[parts_[t].number].empty() || !parts_[t].holds) continue;
    ShardedTable& table = parts_[t].table;
    TablePlan& own = plan.tables[t];
    const bool trains = table.is_trainable();
    // A frozen table changes by its new rows only, and by scores.
    table.note_touched(context, own.stamps, own.unique_rows.ref(), own.run_count.ref(),
                       trains || !own.scores.empty() ? 0 : own.before.rows,
                       trains && sweeps_untouched_rows(table.params().opt_params));
    if (!trains && !own.reused.empty()) {
      table.note_touched(context, own.stamps, own.reused, {}, 0, false);
    }
  }
  context.stream->record(*plan.released);
  for (const Part& part : parts_) part.rows.store().release(plan.slot, plan.released);
  plan.state = LookupPlan::State::Trained;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    plan.tables[t].pin.reset();
    if (!gradients[parts_[t].number].empty()) parts_[t].rows.show(plan.tables[t].extent);
  }
}

void DeviceLookup::score(const OpContext& context, const LookupPlan& plan,
                         std::span<const TensorRef> gradients, const TensorRef& step) const {
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const TablePlan& own = plan.tables[t];
    if (gradients[parts_[t].number].empty() || own.scores.empty() || !parts_[t].holds) continue;
    const RowLife& life = parts_[t].table.params().life;
    const UseRule rule = life.use_rule();
    if (life.timed() && own.key_count() > 0) {
      run(context,
          NoteTimes{.rows = own.key_rows(),
                    .buckets = own.key_buckets(),
                    .times = own.times.first(own.timed_samples),
                    .scores = own.scores,
                    .sample_buckets = static_cast<std::int64_t>(parts_[t].route.own_slots())});
    }
    run(context, ScoreRows{.rows = own.unique_rows.ref(),
                           .count = own.run_count.ref(),
                           .step = step,
                           .scores = own.scores,
                           .candidates = admits(parts_[t]) ? own.candidates.ref() : TensorRef{},
                           .admitted = parts_[t].rows.admitted(),
                           .admit_after = static_cast<std::int64_t>(rule.admit_after),
                           .period = static_cast<std::int64_t>(rule.period),
                           .kept = static_cast<std::int64_t>(rule.kept),
                           .timed = life.timed()});
  }
}

void DeviceLookup::restart_candidates(const OpContext& context, const LookupPlan& plan,
                                      std::span<const TensorRef> gradients) const {
  std::vector<EmbeddingInit> restarts;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    if (gradients[parts_[t].number].empty() || !admits(parts_[t]) || !parts_[t].holds) continue;
    restarts.push_back(*plan.tables[t].restart);
  }
  run_several(context, std::move(restarts));
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
                 .scale = plan.run_scale,
                 .rounding = plan.rounding},
                plan.staged.arrays, scalars,
                own_steps_.of(context, gradient.table, parts_[gradient.table].table, scalars),
                gradient.route->params().opt_params);
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
      append(plan.tables[t].times_arena);
      append(plan.tables[t].positions.arena());
      append(plan.tables[t].unique.owner_arena);
      append(plan.tables[t].unique.asker_arena);
      append(plan.tables[t].unique.relay.arena);
      append(plan.tables[t].replica.arena);
      append(plan.tables[t].replica.offsets_arena);
      append(plan.tables[t].replica.sums_arena);
      append(plan.tables[t].rare.arena);
    }
  }
  const auto append_all = [&](const std::vector<MemoryReportEntry>& entries) {
    report.insert(report.end(), entries.begin(), entries.end());
  };
  if (unique_) append_all(unique_->memory_report());
  if (replica_) append_all(replica_->memory_report());
}

}  // namespace hugectr
