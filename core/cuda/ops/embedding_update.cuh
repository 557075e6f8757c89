// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/embedding_update.hpp"
#include "core/cuda/device/branches.hpp"
#include "core/cuda/device/scratch_parts.hpp"
#include "core/cuda/primitives/many.cuh"
#include "core/cuda/primitives/row_updates.cuh"
#include "core/cuda/primitives/row_wise_updates.cuh"

/// Updates of rows that are kept as Weight, float or BFloat16: compiled in a file each.
namespace hugectr::cuda {

// What the rule must know of every touched row; marks the rows as brought up to this step.
template <KeepsLastStep Rule>
__device__ void catch_up(const Runs& runs, const float* lr, const std::int64_t* step_number,
                         const float* unscale, const Rule& rule, std::int64_t* last_step,
                         CaughtUp<Rule>* rows) {
  if (value_of(unscale) == 0.0f) return;
  const std::size_t count = runs.size();
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t run = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       run < count; run += step) {
    std::int64_t& last = last_step[runs.rows[run]];
    rows[run] = rule.row(*lr, last, *step_number);
    last = *step_number;
  }
}

template <KeepsLastStep Rule>
__global__ void catch_up_kernel(Runs runs, const float* lr, const std::int64_t* step_number,
                                const float* unscale, Rule rule, std::int64_t* last_step,
                                CaughtUp<Rule>* rows) {
  catch_up(runs, lr, step_number, unscale, rule, last_step, rows);
}

// Where the streams of an update will lie; of float32 there are none.
template <class Weight>
std::size_t add_streams(ScratchParts& parts, const EmbeddingUpdate& op) {
  return std::is_same_v<Weight, float> ? 0 : parts.add<std::uint64_t>(op.unique_rows.size());
}

template <class Weight>
RoundedBy<Weight> rounded_by(const Scratch& scratch, std::size_t streams_at,
                             const RowRounding& by) {
  return {part<std::uint64_t>(scratch, streams_at), static_cast<unsigned>(by.first_column)};
}

// The streams of an update's rows, once each.
struct DrawStreams {
  RowIdentities rows;
  const std::int64_t *count, *step;
  std::uint64_t* streams;
  std::uint32_t most;
};
static __global__ void draw_streams_kernel(const __grid_constant__ Many<DrawStreams> many) {
  const DrawStreams& a = many.mine();
  const auto count = static_cast<std::size_t>(*a.count);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    a.streams[i] = a.rows.stream(i, *a.step);
  }
}
inline void draw_streams(const OpContext& context, const std::vector<DrawStreams>& all) {
  launch_many<DrawStreams>(context, EmbeddingUpdate::kSeveralName, all, dim3(kThreads),
                           &draw_streams_kernel,
                           [](const DrawStreams& a) { return grid_for(a.most, kThreads); });
}
inline DrawStreams streams_of(const EmbeddingUpdate& op, std::uint64_t* streams) {
  return {RowIdentities(op.rounding), op.run_count.ptr<std::int64_t>(), op.step.ptr<std::int64_t>(),
          streams, static_cast<std::uint32_t>(op.unique_rows.size())};
}

template <class Weight, class Op>
Table<Weight> table_of(const Op& op) {
  const auto state = [&](std::size_t s) {
    return s < op.states.size() ? op.states[s].template ptr<float>() : nullptr;
  };
  Table<Weight> table{};
  table.weights = op.weights.template ptr<Weight>();
  table.s0 = state(0);
  table.s1 = state(1);
  table.d = op.weights.shape[1];
  return table;
}

static __global__ void prepare_adjustment_kernel(const float* lr, Adjustment of,
                                                 StepAdjustment* step) {
  *step = {of, of.kept(*lr)};
}

inline const StepAdjustment* prepare_adjustment(const OpContext& context, const EmbeddingUpdate& op,
                                                const Scratch& scratch, std::size_t at) {
  const Adjustment of = adjustment_of(op.params);
  if (!of.any()) return nullptr;  // nothing is done before the rule
  launch(context, EmbeddingUpdate::kName, dim3(1), dim3(1), 0, &prepare_adjustment_kernel,
         op.lr.ptr<float>(), of, part<StepAdjustment>(scratch, at));
  return part<StepAdjustment>(scratch, at);
}

// What the other kernels find ready: no long runs yet, and the rate of the step (in a kernel of its
// own: double powers would cost the others registers).
template <HasRate Rule>
__global__ void prepare_kernel(const float* lr, const std::int64_t* step, Rule rule,
                               LongRunCounters* counters, float* rate) {
  if (counters) *counters = {};
  *rate = rule.rate(*lr, *step);
}
static __global__ void clear_counters_kernel(LongRunCounters* counters) { *counters = {}; }

// Where the rate of the step will lie.
template <class Op, class Rule>
const float* prepare(const OpContext& context, const Op& op, const Rule& rule,
                     LongRunCounters* counters, float* rate) {
  if constexpr (HasRate<Rule>) {
    launch(context, Op::kName, dim3(1), dim3(1), 0, &prepare_kernel<Rule>,
           op.lr.template ptr<float>(), op.step.template ptr<std::int64_t>(), rule, counters, rate);
    return rate;
  } else {
    if (counters) launch(context, Op::kName, dim3(1), dim3(1), 0, &clear_counters_kernel, counters);
    return op.lr.template ptr<float>();
  }
}

inline const float* unscale_of(const TensorRef& unscale) {
  return unscale.empty() ? nullptr : unscale.ptr<float>();
}

// From so many possible runs on, long ones are listed first: their sums, which read what caches
// hold, fill what the short ones leave of the device at their end.
inline constexpr std::size_t kFewestListed = std::size_t{1} << 18;

static __global__ void list_long_runs_kernel(Runs runs, LongRuns long_runs, const float* unscale,
                                             LongRunCounters* others) {
  if (value_of(unscale) == 0.0f) return;  // a skipped step: none is there to be summed
  const std::size_t count = runs.size();
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (first == 0) *others = {};
  for (std::size_t i = first; i < count; i += step) {
    const Run run = runs.at(i, count);
    if (run.end - run.begin > kChunk) long_runs.add(i, run);
  }
}

// What all kernels of an update take.
template <class T, class Weight>
struct TableUpdate {
  Runs runs;
  BucketGradients<T> gradients;
  Table<Weight> table;
  LongRuns long_runs;
  /// Where they are listed before the short ones are summed: what the kernel of those, which is one
  /// for both ways, lists once more and nobody reads. Else empty.
  LongRuns listed_again;
  const float* unscale;
  std::size_t max_runs, max_long_runs, max_chunks;
};

template <int W, class T, class Rule>
void update_rows(const OpContext& context, const TableUpdate<T, float>& u,
                 const DeviceRowRule<Rule>& rule) {
  using DeviceRule = DeviceRowRule<Rule>;
  const char* name = EmbeddingUpdate::kName;
  const dim3 block = row_block<W>(u.table.d), fold_block = row_block<W>(u.table.d, kFoldThreads<W>);
  const bool listed_first = u.listed_again.counters != nullptr;
  if (listed_first) {
    launch(context, name, dim3(grid_for(u.max_runs, kThreads)), dim3(kThreads), 0,
           &list_long_runs_kernel, u.runs, u.long_runs, u.unscale, u.listed_again.counters);
  }
  Branches branches(context, listed_first ? 2 : 1);
  const OpContext beside = branches.context(1);
  const auto update_long = [&] {
    if (u.max_long_runs == 0) return;
    launch(beside, name, dim3(grid_for(u.max_chunks, block.y)), block, 0,
           &sum_chunks_kernel<W, T, false>, u.long_runs, u.gradients);
    launch(beside, name, dim3(grid_for(u.max_long_runs, fold_block.y)), fold_block, 0,
           &update_long_runs_kernel<W, DeviceRule>, u.long_runs, u.table, rule, u.unscale);
  };
  if (listed_first) update_long();
  launch(context, name, dim3(grid_for(u.max_runs, block.y)), block, 0,
         &update_short_runs_kernel<W, T, DeviceRule>, u.runs, u.gradients, u.table,
         listed_first ? u.listed_again : u.long_runs, rule, u.unscale);
  if (!listed_first) update_long();
  branches.join();
}

template <int W, int kPacks, class T, class Weight, class Rule>
void update_rows_row_wise(const OpContext& context, const TableUpdate<T, Weight>& u,
                          const Rule& rule, const float* rate) {
  const char* name = EmbeddingUpdate::kName;
  const std::size_t d = u.table.d;
  const unsigned lanes = lanes_of_row(d, W), rows_a_block = kThreads / lanes;
  const dim3 block = row_block<W>(d), fold_block = row_block<W>(d, kFoldThreads<W>);
  launch(context, name, dim3(grid_for(u.max_runs, rows_a_block)), dim3(kThreads), 0,
         &row_wise_short_runs_kernel<W, kPacks, T, Rule, Weight>, u.runs, u.gradients, u.table,
         u.long_runs, rule, rate, u.unscale, lanes);
  if (u.max_long_runs == 0) return;
  launch(context, name, dim3(grid_for(u.max_chunks, block.y)), block, 0,
         &sum_chunks_kernel<W, T, false>, u.long_runs, u.gradients);
  launch(context, name, dim3(grid_for(u.max_long_runs, fold_block.y)), fold_block, 0,
         &fold_long_runs_kernel<W>, u.long_runs, d);
  launch(context, name, dim3(grid_for(u.max_long_runs, rows_a_block)), dim3(kThreads), 0,
         &row_wise_long_runs_kernel<W, kPacks, Rule, Weight>, u.long_runs, u.table, rule, rate,
         u.unscale, lanes);
}

template <class T, class Weight, class Rule>
void update_all(const OpContext& context, const EmbeddingUpdate& op, const Rule& rule) {
  const std::size_t d = op.weights.shape[1], max_runs = op.unique_rows.size();

  ScratchParts parts;
  const LongRunMemory memory(parts, in_long_runs(op), d);
  const bool listed_first = !RowWise<Rule> && memory.max_runs > 0 && max_runs >= kFewestListed;
  const LongRunMemory again(parts, listed_first ? in_long_runs(op) : 0, 0);
  const std::size_t rate_at = parts.add<float>(1);
  const std::size_t adjustment_at = parts.add<StepAdjustment>(1);
  std::size_t rows_at = 0;
  if constexpr (KeepsLastStep<Rule>) rows_at = parts.add<CaughtUp<Rule>>(max_runs);
  const std::size_t streams_at = add_streams<Weight>(parts, op);
  const Scratch scratch(context, parts.bytes());

  TableUpdate<T, Weight> u{
      .runs = {op.unique_rows.ptr<std::uint32_t>(), op.run_offsets.ptr<std::uint32_t>(),
               op.run_count.ptr<std::int64_t>()},
      .gradients = bucket_gradients<T>(op.sorted_buckets, op.gradient, op.scale),
      .table = table_of<Weight>(op),
      .long_runs = memory.in(scratch),
      .listed_again = listed_first ? again.in(scratch) : LongRuns{},
      .unscale = unscale_of(op.unscale),
      .max_runs = max_runs,
      .max_long_runs = memory.max_runs,
      .max_chunks = memory.max_chunks};
  u.table.adjustment = prepare_adjustment(context, op, scratch, adjustment_at);
  if constexpr (!std::is_same_v<Weight, float>) {
    static_cast<RoundedBy<Weight>&>(u.table) = rounded_by<Weight>(scratch, streams_at, op.rounding);
    draw_streams(context, {streams_of(op, part<std::uint64_t>(scratch, streams_at))});
  }
  const float* rate =
      prepare(context, op, rule, memory.max_runs > 0 ? u.long_runs.counters : nullptr,
              part<float>(scratch, rate_at));
  // A number a row is read by itself.
  const float* s0 = RowWise<Rule> ? nullptr : u.table.s0;
  with_row_width<4>(
      [&](std::size_t w) {
        return row_packs_fit(w, d, op.gradient.row_stride, u.gradients.gradient) &&
               row_packs_fit(w, d, d, u.table.weights, s0, u.table.s1);
      },
      [&](auto width) {
        constexpr int kWidth = decltype(width)::value;
        if constexpr (RowWise<Rule>) {
          if (d / kWidth <= 32) return update_rows_row_wise<kWidth, 1>(context, u, rule, rate);
          update_rows_row_wise<kWidth, kMostPacks<kWidth>>(context, u, rule, rate);
        } else if constexpr (KeepsLastStep<Rule>) {
          auto* rows = part<CaughtUp<Rule>>(scratch, rows_at);
          launch(context, EmbeddingUpdate::kName, dim3(grid_for(max_runs, kThreads)),
                 dim3(kThreads), 0, &catch_up_kernel<Rule>, u.runs, op.lr.ptr<float>(),
                 op.step.ptr<std::int64_t>(), u.unscale, rule, op.last_step.ptr<std::int64_t>(),
                 rows);
          update_rows<kWidth>(context, u, DeviceRowRule<Rule>{rows, rule});
        } else {
          update_rows<kWidth>(context, u, DeviceRowRule<Rule>{rate, rule});
        }
      });
}

}  // namespace hugectr::cuda
