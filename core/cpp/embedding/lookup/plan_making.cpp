// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/lookup/device_lookup.hpp"
#include "core/cpp/ops/bucket_scale.hpp"
#include "core/cpp/ops/expand_buckets.hpp"

/// Plans of a device, made on its plan stream.
namespace hugectr {

void DeviceLookup::plan(std::span<const SparseTensor> batch, PlanSlot slot, bool train) {
  LookupPlan& plan = plans_.at(at(slot));
  HCTR_CHECK(batch.size() == parts_.size(), "a group of ", parts_.size(), " tables got keys of ",
             batch.size());
  plan.state = LookupPlan::State::Empty;
  plan.train = train;
  plan.number = ++last_plan_;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const SparseEmbeddingHashParams& params = parts_[t].table.params();
    const std::size_t offsets = batch[t].row_offsets.size();
    HCTR_CHECK(train == (slot != PlanSlot::Eval), "embedding '", params.name,
               "': PlanSlot::Eval is for evaluation, the others are for training");
    HCTR_CHECK(offsets > 1 && (offsets - 1) % params.slot_num == 0, "embedding '", params.name,
               "': ", offsets, " row offsets do not fit ", params.slot_num, " slots");
    TablePlan& own = plan.tables[t];
    own.pin.reset();
    own.samples = (offsets - 1) / params.slot_num;
    own.before = parts_[t].rows.state();
    own.generation = parts_[t].rows.generation();
  }
  try {
    make_plan(plan, batch);
  } catch (...) {
    const OpContext context = gpu_.plan_context();
    for (std::size_t t = 0; train && t < parts_.size(); ++t) {
      parts_[t].rows.take_back(context, plan.tables[t].before);
    }
    context.stream->synchronize();  // the caller may free the batch
    throw;
  }
  plan.state = LookupPlan::State::Planned;
  for (std::size_t t = 0; train && t < parts_.size(); ++t) {
    plan.tables[t].pin = parts_[t].rows.pin();
  }
}

void DeviceLookup::make_plan(LookupPlan& plan, std::span<const SparseTensor> samples) {
  const OpContext context = gpu_.plan_context();
  context.stream->wait(*plan.released);
  const std::vector<SparseTensor> batch = in_buckets(plan, samples);
  filter(plan, batch);
  for (std::size_t t = 0; t < parts_.size(); ++t) make_buffers(parts_[t], plan, plan.tables[t]);
  group_keys(plan, batch);
  plan.train ? number(plan) : find(plan);
  choose_exchanges(plan, batch);
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    TablePlan& own = plan.tables[t];
    const TensorRef numbers = own.unique.used
                                  ? TablePlan::first(own.unique.rows, own.unique.asked_rows())
                                  : own.key_rows();
    own.staged = parts_[t].rows.store().stage(
        context, plan.slot, own.extent.rows, {numbers, own.unique_rows.ref(), own.run_count.ref()});
    own.stamps = parts_[t].rows.stamps(own.extent.rows);
  }
  context.stream->record(*plan.ready);
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

void DeviceLookup::filter(LookupPlan& plan, std::span<const SparseTensor> batch) {
  const OpContext context = gpu_.plan_context();
  std::vector<FilterKeys> filters;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const Part& part = parts_[t];
    const Route& route = part.route;
    const SparseTensor& csr = batch[t];
    TablePlan& own = plan.tables[t];
    const std::string& name = part.table.params().name;
    TensorRef keys = csr.keys;
    keys.shape = {csr.nnz};
    keys.row_stride = 1;
    HCTR_CHECK(csr.nnz <= csr.keys.size(), "embedding '", name, "': nnz ", csr.nnz,
               " is more than the ", csr.keys.size(), " keys of the batch");
    HCTR_CHECK(keys.dtype == part.rows.spec().key_type, "embedding '", name, "' has ",
               to_string(part.rows.spec().key_type), " keys, the batch has ", to_string(keys.dtype),
               ": set i64_input_key to match the data");
    if (route.device_count() == 1) {
      own.own = {keys, csr.row_offsets, {}};
      continue;
    }
    const std::size_t buckets = own.samples * route.own_slots();
    const bool with_places = plan.train && part.may_send_rows;
    if (!own.filter_fits(csr.nnz, buckets)) {
      context.stream->synchronize();
      plan.released->synchronize();
      own.allocate_filter(gpu_.memory_resource(), part.rows.owner() + " own keys", keys.dtype,
                          csr.nnz, buckets, with_places);
    }
    own.own = {TablePlan::first(own.own_keys, csr.nnz),
               TablePlan::first(own.own_row_offsets, buckets + 1),
               {}};
    if (with_places) own.own.places = TablePlan::first(own.own_places, csr.nnz);
    filters.push_back(
        route.placement().filter(route.rank(), {keys, csr.row_offsets, csr.nnz}, own.own));
  }
  if (filters.empty()) return;
  run_several(context, std::move(filters));
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const TensorRef& offsets = plan.tables[t].own.row_offsets;
    context.stream->copy(own_counts_.get_ptr() + t,
                         offsets.ptr<std::uint32_t>() + offsets.size() - 1, sizeof(std::uint32_t));
  }
  context.stream->synchronize();
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    TablePlan& own = plan.tables[t];
    const std::size_t count = own_counts_.get_ptr()[t];
    own.own.keys = TablePlan::first(own.own_keys, count);
    if (!own.own.places.empty()) own.own.places = TablePlan::first(own.own_places, count);
  }
}

void DeviceLookup::make_buffers(const Part& part, const LookupPlan& plan, TablePlan& own) {
  if (own.fits(own.key_count(), own.bucket_count())) return;
  gpu_.plan_stream().synchronize();
  plan.released->synchronize();
  own.allocate(gpu_.memory_resource(),
               part.rows.owner() + (plan.train ? " training plan" : " evaluation plan"),
               own.key_count(), own.bucket_count(), sorts(part, plan));
}

void DeviceLookup::group_keys(LookupPlan& plan, std::span<const SparseTensor> batch) const {
  const OpContext context = gpu_.plan_context();
  std::vector<ExpandBuckets> buckets;
  std::vector<BucketScale> scales;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    TablePlan& own = plan.tables[t];
    buckets.push_back({.row_offsets = own.own.row_offsets, .buckets = own.key_buckets()});
    own.bucket_scale = {};
    if (parts_[t].table.params().combiner != Combiner::Mean) continue;
    // The number of keys that count is that of the whole bucket.
    const bool whole = parts_[t].route.placement().whole_buckets();
    own.bucket_scale = TablePlan::first(own.scale, own.bucket_count());
    scales.push_back({.row_offsets = whole ? own.own.row_offsets : batch[t].row_offsets,
                      .scale = own.bucket_scale});
  }
  run_several(context, std::move(buckets));
  run_several(context, std::move(scales));
}

void DeviceLookup::number(LookupPlan& plan) const {
  const OpContext context = gpu_.plan_context();
  std::vector<HashGetInsert> lookups;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const Route& route = parts_[t].route;
    TablePlan& own = plan.tables[t];
    lookups.push_back(parts_[t].rows.to_number(context, own.own.keys, own.key_buckets(),
                                               parts_[t].table.slot_of_bucket(route.rank()),
                                               own.key_rows()));
  }
  run_several(context, std::move(lookups));
  for (const Part& part : parts_) part.rows.read_outcome(context);
  context.stream->synchronize();
  std::vector<EmbeddingInit> new_rows;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    Table& rows = parts_[t].rows;
    TablePlan& own = plan.tables[t];
    const HashTable::Result found = rows.numbered(context);
    check_reserved(parts_[t], own, found.first_reserved);
    rows.make_room(found.rows);
    own.extent = rows.begin_rows(own.before, true, new_rows);
    own.reused = rows.reused_since(own.before);
  }
  run_several(context, std::move(new_rows));
}

void DeviceLookup::find(LookupPlan& plan) const {
  const OpContext context = gpu_.plan_context();
  std::vector<HashGet> lookups;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const Route& route = parts_[t].route;
    TablePlan& own = plan.tables[t];
    own.extent = parts_[t].rows.visible();
    lookups.push_back(parts_[t].rows.to_find(context, own.own.keys, own.key_buckets(),
                                             parts_[t].table.slot_of_bucket(route.rank()),
                                             own.key_rows()));
  }
  run_several(context, std::move(lookups));
  for (const Part& part : parts_) part.rows.read_outcome(context);
  context.stream->synchronize();
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    check_reserved(parts_[t], plan.tables[t], parts_[t].rows.found().first_reserved);
  }
}

void DeviceLookup::choose_exchanges(LookupPlan& plan, std::span<const SparseTensor> batch) {
  std::vector<PlannedLookup> may_send_rows;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    plan.tables[t].unique.used = false;
    if (!plan.train || !parts_[t].may_send_rows) continue;
    may_send_rows.push_back({&parts_[t].route, &plan.tables[t], &batch[t], plan.released.get()});
  }
  if (!may_send_rows.empty()) unique_->plan(may_send_rows);
  std::vector<LookupSort> sorted;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    TablePlan& own = plan.tables[t];
    own.exchange = pooled_.get();
    own.run_scale = own.bucket_scale;
    if (own.unique.used) {
      own.exchange = unique_.get();
      own.run_scale = {};  // gradients come scaled
      if (gpu_.get_local_id() == 0) parts_[t].table.count_unique_plan();
    } else if (sorts(parts_[t], plan)) {
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

void DeviceLookup::check_reserved(const Part& part, const TablePlan& own,
                                  std::int64_t first_reserved) const {
  if (first_reserved < 0) return;
  Stream& stream = gpu_.plan_stream();
  std::uint32_t bucket = 0;
  stream.copy(&bucket, own.buckets.ref().ptr<std::uint32_t>() + first_reserved, sizeof bucket);
  stream.synchronize();
  const Route& route = part.route;
  const std::size_t bucket_slot = route.placement().slot_of_bucket(route.rank())(bucket);
  part.table.refuse_reserved(bucket / route.own_slots(), part.starts.slot_of(bucket_slot));
}

}  // namespace hugectr
