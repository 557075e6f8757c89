// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/lookup/device_lookup.hpp"
#include "core/cpp/ops/bucket_scale.hpp"
#include "core/cpp/ops/expand_buckets.hpp"
#include "core/cpp/ops/row_requests.hpp"
#include "core/cpp/ops/row_times.hpp"

/// Plans of a device, made on its plan stream.
namespace hugectr {

void DeviceLookup::begin_plan(std::span<const SparseTensor> given, PlanSlot slot, bool train) {
  LookupPlan& plan = plans_.at(at(slot));
  HCTR_CHECK(given.size() == tables_, "a group of ", tables_, " tables got keys of ", given.size());
  std::vector<SparseTensor> all;
  const std::span<const SparseTensor> batch = of_parts(given, all);
  plan.state = LookupPlan::State::Empty;
  plan.train = train;
  plan.number = ++last_plan_;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const SparseEmbeddingHashParams& params = parts_[t].table.params();
    const std::size_t offsets = batch[t].row_offsets.size();
    HCTR_CHECK(train == (slot != PlanSlot::Eval), "embedding '", params.name,
               "': PlanSlot::Eval is for evaluation, the others are for training");
    // A table of which nothing is asked has one offset.
    HCTR_CHECK(offsets > 0 && (offsets - 1) % params.slot_num == 0, "embedding '", params.name,
               "': ", offsets, " row offsets do not fit ", params.slot_num, " slots");
    TablePlan& own = plan.tables[t];
    own.pin.reset();
    own.samples = (offsets - 1) / params.slot_num;
    HCTR_CHECK(!train || !params.life.timed() || own.timed_samples == own.samples, "embedding '",
               params.name, "': ttl_column '", params.life.ttl_column, "' has times of ",
               own.timed_samples, " samples, and the batch ", own.samples);
    own.before = parts_[t].rows.state();
    own.generation = parts_[t].rows.generation();
  }
  try {
    look_up_keys(plan, batch);
  } catch (...) {
    undo(plan);
    throw;
  }
  plan.state = LookupPlan::State::Begun;
}

void DeviceLookup::take_times(std::span<const SparseTensor> given, PlanSlot slot) {
  LookupPlan& plan = plans_.at(at(slot));
  HCTR_CHECK(given.size() == tables_, "a group of ", tables_, " tables got times of ",
             given.size());
  for (std::size_t t = 0; t < tables_; ++t) {
    TablePlan& own = plan.tables[t];
    const SparseTensor& times = given[t];
    own.timed_samples = 0;
    if (times.row_offsets.empty()) continue;
    const std::size_t samples = times.row_offsets.size() - 1;
    gpu_.plan_stream().wait(*plan.released);
    if (!own.times_arena || own.times.ref().size() < samples) {
      gpu_.plan_stream().synchronize();
      plan.released->synchronize();
      own.allocate_times(gpu_.memory_resource(), parts_[t].rows.owner() + " times of samples",
                         samples);
    }
    run(gpu_.plan_context(), SampleTimes{.keys = times.keys,
                                         .row_offsets = times.row_offsets,
                                         .times = own.times.first(samples)});
    own.timed_samples = samples;
  }
}

void DeviceLookup::finish_plan(PlanSlot slot, const std::function<void()>& check) {
  LookupPlan& plan = plans_.at(at(slot));
  HCTR_CHECK(plan.state == LookupPlan::State::Begun, owner_, ": this slot has no plan to finish");
  plan.state = LookupPlan::State::Empty;
  try {
    make_plan(plan, check);
  } catch (...) {
    undo(plan);
    throw;
  }
  plan.state = LookupPlan::State::Planned;
  for (std::size_t t = 0; plan.train && t < parts_.size(); ++t) {
    plan.tables[t].pin = parts_[t].rows.pin();
  }
}

void DeviceLookup::undo(const LookupPlan& plan) {
  const OpContext context = gpu_.plan_context();
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    parts_[t].rows.store().release(plan.slot, nullptr);
    if (plan.train) parts_[t].rows.take_back(context, plan.tables[t].before);
  }
  context.stream->synchronize();  // the caller may free the batch
}

void DeviceLookup::look_up_keys(LookupPlan& plan, std::span<const SparseTensor> samples) {
  const OpContext context = gpu_.plan_context();
  context.stream->wait(*plan.released);
  plan.batch = in_buckets(plan, samples);
  if (has_hybrids()) plan.rare = without_frequent(plan, plan.batch);
  filter(plan, has_hybrids() ? plan.rare : plan.batch);
  for (std::size_t t = 0; t < parts_.size(); ++t) make_buffers(parts_[t], plan, plan.tables[t]);
  group_keys(plan, plan.batch);
  plan.train ? begin_numbers(plan) : begin_finding(plan);
}

void DeviceLookup::make_plan(LookupPlan& plan, const std::function<void()>& check) {
  const OpContext context = gpu_.plan_context();
  context.stream->synchronize();
  if (check) check();
  plan.train ? number(plan) : find(plan);
  choose_exchanges(plan, has_hybrids() ? plan.rare : plan.batch, plan.batch);
  stage(plan);
  for (std::size_t t = 0; plan.train && t < parts_.size(); ++t) {
    TablePlan& own = plan.tables[t];
    own.scores = parts_[t].rows.scores(own.extent.rows);
    if (admits(parts_[t])) {
      own.restart = std::make_unique<EmbeddingInit>(
          parts_[t].rows.restart(own.candidates.ref(), own.staged, own.extent.rows));
    }
  }
  (moves_rows() ? gpu_.move_stream() : *context.stream).record(*plan.ready);
}

bool DeviceLookup::moves_rows() const {
  return std::ranges::any_of(parts_, [](const Part& part) { return part.rows.store().moves(); });
}

void DeviceLookup::stage(LookupPlan& plan) {
  const OpContext context = gpu_.plan_context();
  std::vector<RowStaging::Rows> tables;
  tables.reserve(parts_.size());
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const TablePlan& own = plan.tables[t];
    if (!parts_[t].holds) continue;
    tables.push_back({&parts_[t].rows.store(),
                      own.extent.rows,
                      {.of_keys = own.unique.used ? own.unique.rows.first(own.unique.asked_rows())
                                                  : own.key_rows(),
                       .distinct = own.unique_rows.ref(),
                       .count = own.run_count.ref(),
                       .train = plan.train,
                       .fresh_from = plan.train ? own.before.rows : own.extent.rows}});
  }
  std::vector<StagedRows> staged = staging_.stage(plan.slot, tables);
  auto next_staged = staged.begin();
  std::vector<EmbeddingInit> new_rows, behind_moves;
  new_rows.reserve(staged.size());
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    if (!parts_[t].holds) continue;
    Table& rows = parts_[t].rows;
    TablePlan& own = plan.tables[t];
    own.staged = std::move(*next_staged++);
    own.rounding = rows.rounding(own.unique_rows.ref(), own.extent.rows);
    own.stamps = rows.stamps(own.extent.rows);
    own.behind_update.reset();
    if (!plan.train) continue;
    if (own.extent.rows > rows.size()) {  // of a plan that is submitted before they are known
      rows.content_of_new(own.key_count(), own.staged, new_rows);
      continue;
    }
    auto behind = rows.first_content_ahead(own.before, own.staged,
                                           rows.store().moves() ? behind_moves : new_rows);
    if (behind) own.behind_update = std::make_unique<EmbeddingInit>(*std::move(behind));
  }
  run_several(context, std::move(new_rows));
  if (!moves_rows()) return;
  // The host and this stream go on to the next plan while rows are on their way.
  context.stream->record(*plan.made);
  gpu_.move_stream().wait(*plan.made);
  run_several(gpu_.move_context(), std::move(behind_moves));
}

std::vector<SparseTensor> DeviceLookup::in_buckets(LookupPlan& plan,
                                                   std::span<const SparseTensor> batch) {
  std::vector<SparseTensor> result(batch.begin(), batch.end());
  std::vector<PositionOffsets> offsets;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const Part& part = parts_[t];
    if (part.table.params().pooled()) continue;
    TablePlan& own = plan.tables[t];
    const std::size_t buckets = own.samples * part.starts.positions();
    if (!own.positions.fits(buckets)) {
      gpu_.plan_stream().synchronize();
      plan.released->synchronize();
      own.positions.reserve(gpu_.memory_resource(), part.rows.owner() + " positions", buckets);
    }
    result[t].row_offsets = own.positions.row_offsets(buckets);
    offsets.push_back(part.starts.spread(batch[t].row_offsets, result[t].row_offsets));
  }
  run_several(gpu_.plan_context(), std::move(offsets));
  return result;
}

std::vector<SparseTensor> DeviceLookup::without_frequent(LookupPlan& plan,
                                                         std::span<const SparseTensor> batch) {
  std::vector<SparseTensor> left(batch.begin(), batch.end());
  std::vector<HashGet> marks;
  std::vector<FilterKeys> rare;
  for (std::size_t t = 0; t < tables_; ++t) {
    const Part& part = parts_[t];
    if (part.frequent_part == 0) continue;
    RareBatch& own = plan.tables[t].rare;
    const std::size_t n = batch[t].nnz, buckets = batch[t].row_offsets.size() - 1;
    TensorRef keys = batch[t].keys;
    keys.shape = {n};
    keys.row_stride = 1;
    if (!own.fits(n, buckets)) {
      gpu_.plan_stream().synchronize();
      plan.released->synchronize();
      own.reserve(gpu_.memory_resource(), part.rows.owner() + " rare keys", keys.dtype, n, buckets);
    }
    const TensorRef held = own.held.first(n);
    marks.push_back(parts_[part.frequent_part].frequent->mark(keys, held));
    left[t] = {own.keys.first(n), own.row_offsets.first(buckets + 1), n};
    rare.push_back({.keys = keys,
                    .row_offsets = batch[t].row_offsets,
                    .own_keys = left[t].keys,
                    .own_row_offsets = left[t].row_offsets,
                    .held = held});
  }
  run_several(gpu_.plan_context(), std::move(marks));
  run_several(gpu_.plan_context(), std::move(rare));
  return left;
}

void DeviceLookup::make_buffers(const Part& part, const LookupPlan& plan, TablePlan& own) {
  if (own.fits(own.key_count(), own.bucket_count())) return;
  gpu_.plan_stream().synchronize();
  plan.released->synchronize();
  own.allocate(gpu_.memory_resource(),
               part.rows.owner() + (plan.train ? " training plan" : " evaluation plan"),
               own.key_count(), own.bucket_count(), sorts(part, plan), admits(part) && plan.train);
  // Nobody else says how many rows there are of a table that has none here.
  if (!part.holds && sorts(part, plan)) {
    gpu_.plan_stream().fill_zero(own.run_count.data(), own.run_count.size_in_bytes());
  }
}

void DeviceLookup::group_keys(LookupPlan& plan, std::span<const SparseTensor> batch) const {
  const OpContext context = gpu_.plan_context();
  std::vector<ExpandBuckets> buckets;
  buckets.reserve(parts_.size());
  std::vector<BucketScale> scales;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    TablePlan& own = plan.tables[t];
    own.bucket_scale = {};
    if (!parts_[t].holds) continue;
    buckets.push_back({.row_offsets = own.own.row_offsets, .buckets = own.key_buckets()});
    if (parts_[t].table.params().combiner != Combiner::Mean) continue;
    // The number of keys that count is that of the whole bucket.
    const bool whole = parts_[t].route.placement().whole_buckets();
    own.bucket_scale = own.scale.first(own.bucket_count());
    TensorRef offsets = whole ? own.own.row_offsets : batch[t].row_offsets;
    if (!whole && parts_[t].route.of_own_samples()) {
      offsets.data = offsets.ptr<std::uint32_t>() + parts_[t].route.rank() * own.bucket_count();
      offsets.shape = {own.bucket_count() + 1};
    }
    scales.push_back({.row_offsets = offsets, .scale = own.bucket_scale});
  }
  run_several(context, std::move(buckets));
  run_several(context, std::move(scales));
}

void DeviceLookup::choose_exchanges(LookupPlan& plan, std::span<const SparseTensor> looked_up,
                                    std::span<const SparseTensor> batch) {
  std::vector<PlannedLookup> may_send_rows;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const Part& part = parts_[t];
    plan.tables[t].unique.used = plan.tables[t].replica.used = false;
    if (!plan.train || !part.may_send_rows) continue;
    may_send_rows.push_back(
        {&part.route, &plan.tables[t], &looked_up[t], batch[t].row_offsets, plan.released.get()});
  }
  if (!may_send_rows.empty()) unique_->plan(may_send_rows);
  if (plan.train && replica_) replica_->plan(replicated(plan));
  std::vector<LookupSort> sorted;
  sorted.reserve(parts_.size());
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    TablePlan& own = plan.tables[t];
    own.exchange = pooled_.get();
    own.run_scale = own.bucket_scale;
    if (own.unique.used) {
      own.exchange = unique_.get();
      own.run_scale = {};  // gradients come scaled
      if (gpu_.get_local_id() == 0) parts_[t].table.count_unique_plan();
    } else if (own.replica.used) {
      own.exchange = replica_.get();
      own.run_scale = {};
      if (gpu_.get_local_id() == 0) parts_[t].table.count_unique_plan();
    } else if (parts_[t].holds && sorts(parts_[t], plan)) {
      sorted.push_back(sort_of(plan, own));
    }
  }
  run_several(gpu_.plan_context(), std::move(sorted));
}

bool DeviceLookup::sorts(const Part& part, const LookupPlan& plan) {
  return plan.train || part.rows.store().wants_distinct_rows();
}

LookupSort DeviceLookup::sort_of(const LookupPlan& plan, const TablePlan& own) {
  // In evaluation keys without a row have the largest number there is.
  const std::size_t numbers = plan.train ? own.extent.rows : std::size_t{kNoRow} + 1;
  return {.rows = own.key_rows(),
          .buckets = own.key_buckets(),
          .sorted_buckets = own.sorted_buckets.ref(),
          .unique_rows = own.unique_rows.ref(),
          .run_offsets = own.run_offsets.ref(),
          .run_count = own.run_count.ref(),
          .scratch = own.scratch.ref(),
          .row_count = static_cast<std::int64_t>(numbers)};
}

}  // namespace hugectr
