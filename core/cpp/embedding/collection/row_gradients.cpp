// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/collection/row_gradients.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/lookup/lookup_plan.hpp"
#include "core/cpp/ops/clip_norm.hpp"
#include "core/cpp/ops/lookup_sort.hpp"

namespace hugectr {
namespace {

/// Rows begin .. begin + n - 1 of an array of rows.
TensorRef rows_of(TensorRef array, std::size_t begin, std::size_t n) {
  array.data = static_cast<char*>(array.data) + begin * array.row_stride * size_of(array.dtype);
  array.shape[0] = n;
  return array;
}

}  // namespace

RowGradients::RowGradients(LookupGroup& group, GPUResource& gpu)
    : group_(group), gpu_(gpu), parts_(group.size()), staging_(gpu), own_steps_(gpu) {
  for (std::size_t t = 0; t < parts_.size(); ++t) grow(t, 0);
  counts_arena_ =
      DeviceBuffer2::create("rows with gradients", DeviceAllocator(gpu.memory_resource()));
  counts_arena_->reserve({parts_.size() + 1}, &run_counts_, "rows of each table");
  counts_arena_->allocate();
}

void RowGradients::grow(std::size_t table, std::size_t rows) {
  Part& part = parts_[table];
  Part grown;
  grown.capacity = TablePlan::with_reserve(rows);
  grown.count = part.count;
  grown.batches = part.batches;
  const std::size_t d = group_.table(table).params().embedding_vec_size;
  constexpr auto kU32 = TensorScalarType::UInt32;
  auto arena = DeviceBuffer2::create(
      group_.table(table).part(gpu_.get_local_id()).owner() + " gradients of rows",
      DeviceAllocator(gpu_.memory_resource()));
  grown.rows = arena->reserve({grown.capacity}, kU32, "rows");
  grown.sums = arena->reserve({grown.capacity, d}, TensorScalarType::Float32, "gradients");
  grown.places = arena->reserve({grown.capacity + 1}, kU32, "places");
  grown.sorted_places = arena->reserve({grown.capacity}, kU32, "sorted places");
  grown.unique_rows = arena->reserve({grown.capacity}, kU32, "unique rows");
  grown.run_offsets = arena->reserve({grown.capacity + 1}, kU32, "run offsets");
  grown.scratch = arena->reserve({2 * grown.capacity}, TensorScalarType::UInt64, "scratch");
  arena->allocate();
  grown.arena = std::move(arena);
  std::vector<std::uint32_t> places(grown.capacity + 1);
  std::iota(places.begin(), places.end(), 0u);
  Stream& stream = gpu_.compute_stream();
  stream.copy(grown.places.ref().data, places.data(), places.size() * sizeof places[0]);
  if (part.count > 0) {
    stream.copy(grown.rows.ref().data, part.rows.ref().data, part.count * sizeof(std::uint32_t));
    stream.copy(grown.sums.ref().data, part.sums.ref().data, part.count * d * sizeof(float));
  }
  stream.synchronize();  // the former memory goes
  part = std::move(grown);
}

void RowGradients::reserve(std::size_t table, std::size_t rows) {
  const Part& part = parts_[table];
  if (part.count + rows > part.capacity) grow(table, part.count + rows);
}

RowGradients::Room RowGradients::append(std::size_t table, std::size_t rows) {
  reserve(table, rows);
  Part& part = parts_[table];
  Room room{rows_of(part.rows.ref(), part.count, rows), rows_of(part.sums.ref(), part.count, rows)};
  part.count += rows;
  if (rows > 0) ++part.batches;
  part.grouped = false;
  return room;
}

std::vector<std::size_t> RowGradients::counts() const {
  std::vector<std::size_t> counts;
  for (const Part& part : parts_) counts.push_back(part.count);
  return counts;
}

void RowGradients::cut_back(const std::vector<std::size_t>& counts) {
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    Part& part = parts_[t];
    if (counts[t] == 0) {
      part.batches = 0;
    } else if (counts[t] < part.count) {
      --part.batches;
    }
    part.count = counts[t];
    part.grouped = false;
  }
}

std::vector<std::uint32_t> RowGradients::rows(std::size_t table) const {
  const Part& part = parts_[table];
  std::vector<std::uint32_t> rows(part.count);
  gpu_.compute_stream().copy(rows.data(), part.rows.ref().data, rows.size() * sizeof rows[0]);
  gpu_.compute_stream().synchronize();
  return rows;
}

TensorRef RowGradients::step_number() const { return rows_of(run_counts_.ref(), parts_.size(), 1); }

void RowGradients::set_step_number(std::int64_t number) {
  gpu_.compute_stream().copy_scalars(run_counts_.get_ptr() + parts_.size(), &number, sizeof number);
}

void RowGradients::group_rows(std::optional<std::int64_t> number) {
  const OpContext context = gpu_.compute_context();
  std::vector<std::int64_t> counts;  // of what was distinct as it came; a sort writes its own
  std::vector<LookupSort> sorts;
  bool all_grouped = true;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    Part& part = parts_[t];
    counts.push_back(static_cast<std::int64_t>(part.count));
    if (!std::exchange(part.grouped, true)) all_grouped = false;
    if (part.batches <= 1) continue;
    const Table& rows = group_.table(t).part(gpu_.get_local_id());
    sorts.push_back(
        {.rows = part.rows.first(part.count),
         .buckets = part.places.first(part.count),
         .sorted_buckets = part.sorted_places.ref(),
         .unique_rows = part.unique_rows.ref(),
         .run_offsets = part.run_offsets.ref(),
         .run_count = rows_of(run_counts_.ref(), t, 1),
         .scratch = part.scratch.ref(),
         .row_count = static_cast<std::int64_t>(std::max<std::size_t>(rows.size(), 1))});
  }
  if (number) counts.push_back(*number);
  constexpr std::size_t kAtOnce = 256 / sizeof(std::int64_t);  // of copy_scalars()
  // The counts of what has been grouped are there: only the number is another.
  for (std::size_t t = all_grouped ? parts_.size() : 0; t < counts.size(); t += kAtOnce) {
    context.stream->copy_scalars(run_counts_.get_ptr() + t, counts.data() + t,
                                 std::min(kAtOnce, counts.size() - t) * sizeof counts[0]);
  }
  if (!all_grouped) run_several(context, std::move(sorts));
}

RowRuns RowGradients::runs(std::size_t table) const {
  const Part& part = parts_[table];
  const bool as_they_came = part.batches <= 1;
  TensorRef gradient = part.sums.ref();
  gradient.shape = {part.count, 1, gradient.shape[1]};
  // Of what there is room for those that came: kernels are launched for so many.
  const std::size_t n = std::max<std::size_t>(part.count, 1);
  return {.sorted_buckets = (as_they_came ? part.places : part.sorted_places).first(n),
          .distinct = (as_they_came ? part.rows : part.unique_rows).first(n),
          .run_offsets = (as_they_came ? part.places : part.run_offsets).first(n + 1),
          .run_count = rows_of(run_counts_.ref(), table, 1),
          .gradient = gradient,
          .longest = static_cast<std::int64_t>(part.batches)};  // a batch has a row once
}

void RowGradients::squares(const TensorRef& squares) {
  const OpContext context = gpu_.compute_context();
  context.stream->fill_zero(squares.data, squares.size_in_bytes());
  group_rows();
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    if (parts_[t].count == 0) continue;
    const RowRuns all = runs(t);
    run(context, RowSquareSum{.sorted_buckets = all.sorted_buckets,
                              .run_offsets = all.run_offsets,
                              .run_count = all.run_count,
                              .gradient = all.gradient,
                              .sum = rows_of(squares, t, 1)});
  }
}

void RowGradients::apply(std::span<const UpdateScalars> scalars, std::int64_t number) {
  HCTR_CHECK(scalars.size() == parts_.size(), "a collection of ", parts_.size(),
             " tables got scalars of ", scalars.size());
  const OpContext context = gpu_.compute_context();
  group_rows(number);
  std::vector<std::size_t> moving, tiered;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    if (!moves(t)) continue;
    const bool stays = !group_.table(t).part(gpu_.get_local_id()).store().wants_distinct_rows();
    (stays ? moving : tiered).push_back(t);
  }
  const std::vector<StagedRows> staged = stage_rows(tiered);
  await_plans(moving);
  RowUpdates updates;
  updates.reserve(moving.size() + tiered.size());
  const auto runs_of = [&](std::size_t t) {
    const Table& rows = group_.table(t).part(gpu_.get_local_id());
    RowRuns all = runs(t);
    all.rounding = rows.rounding(all.distinct, rows.size());
    return all;
  };
  const auto update = [&](std::size_t t, const RowRuns& all, const RowArrays& arrays) {
    ShardedTable& table = group_.table(t);
    updates.add(all, arrays, scalars[t], own_steps_.of(context, t, table, scalars[t]),
                table.params().opt_params);
  };
  for (const std::size_t t : moving) {
    // Of all rows that have numbers: these gradients are of several plans.
    Table& rows = group_.table(t).part(gpu_.get_local_id());
    update(t, runs_of(t), rows.store().whole(rows.size()));
  }
  for (std::size_t i = 0; i < tiered.size(); ++i) {
    RowRuns all = runs_of(tiered[i]);
    all.distinct = staged[i].distinct;  // places; bits are drawn by number
    update(tiered[i], all, staged[i].arrays);
  }
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    if (!moves(t)) continue;
    ShardedTable& table = group_.table(t);
    Table& rows = table.part(gpu_.get_local_id());
    const RowRuns all = runs(t);
    table.note_touched(context, rows.stamps(rows.size()), all.distinct, all.run_count, 0,
                       sweeps_untouched_rows(table.params().opt_params));
  }
  updates.run(context);
  release_rows(tiered);
}

void RowGradients::await_plans(const std::vector<std::size_t>& tables) {
  const bool any_sweeps = std::ranges::any_of(tables, [this](std::size_t t) {
    return sweeps_untouched_rows(group_.table(t).params().opt_params);
  });
  if (!any_sweeps) return;
  if (!planned_) planned_ = gpu_.create_event();
  gpu_.plan_stream().record(*planned_);
  gpu_.compute_stream().wait(*planned_);
}

bool RowGradients::moves(std::size_t table) const {
  const ShardedTable& own = group_.table(table);
  const bool sweeps = sweeps_untouched_rows(own.params().opt_params);
  return own.is_trainable() && group_.table(table).part(gpu_.get_local_id()).size() > 0 &&
         (parts_[table].count > 0 || sweeps);
}

std::vector<StagedRows> RowGradients::stage_rows(const std::vector<std::size_t>& tables) {
  std::vector<StagedRows> staged;
  if (tables.empty()) return staged;
  if (!slot_) slot_ = group_.add_slot();
  if (!grouped_) grouped_ = gpu_.create_event();
  if (!staged_) staged_ = gpu_.create_event();
  if (!arrived_) arrived_ = gpu_.create_event();
  if (!released_) released_ = gpu_.create_event();
  const OpContext context = gpu_.plan_context();
  const auto slot = static_cast<std::size_t>(*slot_);
  gpu_.compute_stream().record(*grouped_);
  context.stream->wait(*grouped_);
  std::vector<RowStaging::Rows> rows;
  for (const std::size_t t : tables) {
    const RowRuns all = runs(t);
    const Table& table = group_.table(t).part(gpu_.get_local_id());
    rows.push_back({&table.store(),
                    table.size(),
                    {.of_keys = parts_[t].rows.first(0),
                     .distinct = (parts_[t].batches <= 1 ? parts_[t].rows : parts_[t].unique_rows)
                                     .first(parts_[t].count),
                     .count = all.run_count,
                     .train = true,
                     .fresh_from = table.size()}});
  }
  try {
    staged = staging_.stage(slot, rows);
  } catch (...) {
    release_rows(tables);
    throw;
  }
  context.stream->record(*staged_);
  gpu_.move_stream().wait(*staged_);
  gpu_.move_stream().record(*arrived_);
  gpu_.compute_stream().wait(*arrived_);
  return staged;
}

void RowGradients::release_rows(const std::vector<std::size_t>& tables) {
  if (tables.empty()) return;
  gpu_.compute_stream().record(*released_);
  for (const std::size_t t : tables) {
    RowStore& store = group_.table(t).part(gpu_.get_local_id()).store();
    store.release(static_cast<std::size_t>(*slot_), released_);
  }
}

void RowGradients::report_memory(std::vector<MemoryReportEntry>& report) const {
  for (const Part& part : parts_) {
    report.insert(report.end(), part.arena->report().begin(), part.arena->report().end());
  }
}

}  // namespace hugectr
