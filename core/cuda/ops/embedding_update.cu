// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/ops/embedding_update.hpp"
#include "core/cuda/memory/scratch_parts.hpp"
#include "core/cuda/primitives/row_updates.cuh"
#include "core/cuda/primitives/row_wise_updates.cuh"

namespace hugectr::cuda {
namespace {

// What the rule must know of every touched row; marks the rows as brought up to this step.
template <KeepsLastStep Rule>
__global__ void catch_up_kernel(Runs runs, const float* lr, const std::int64_t* step_number,
                                const float* unscale, Rule rule, std::int64_t* last_step,
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

__global__ void mark_touched_kernel(Runs runs, std::uint32_t* touched) {
  const std::size_t count = runs.size();
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t run = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       run < count; run += step) {
    const std::uint32_t row = runs.rows[run];
    atomicOr(touched + row / 32, 1u << row % 32);
  }
}

// Every row whose bit is not set. Moves (8 + 8 kStates) d bytes a row.
template <int W, class Rule>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    sweep_kernel(const std::uint32_t* __restrict__ touched, std::size_t rows, Table table,
                 Rule rule, const float* unscale) {
  if (value_of(unscale) == 0.0f) return;  // a skipped step
  const unsigned column = threadIdx.x * W;
  for (std::size_t row = row_worker(); row < rows; row += row_worker_count()) {
    if (touched[row / 32] >> row % 32 & 1) continue;
    const std::size_t at = row * table.d + column;
    update_row(table, at, load_row<W, Rule>(table, at), rule, 0, Pack<float, W>{}, 0.0f);
  }
}

template <class Op>
Table table_of(const Op& op) {
  const auto state = [&](std::size_t s) {
    return s < op.states.size() ? op.states[s].template ptr<float>() : nullptr;
  };
  return {op.weights.template ptr<float>(), state(0), state(1), op.weights.shape[1]};
}

// What the other kernels find ready: no long runs yet, and the rate of the step (in a kernel of its
// own: double powers would cost the others registers).
template <HasRate Rule>
__global__ void prepare_kernel(const float* lr, const std::int64_t* step, Rule rule,
                               LongRunCounters* counters, float* rate) {
  if (counters) *counters = {};
  *rate = rule.rate(*lr, *step);
}
__global__ void clear_counters_kernel(LongRunCounters* counters) { *counters = {}; }

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

const float* unscale_of(const TensorRef& unscale) {
  return unscale.empty() ? nullptr : unscale.ptr<float>();
}

// What all kernels of an update take.
template <class T>
struct TableUpdate {
  Runs runs;
  BucketGradients<T> gradients;
  Table table;
  LongRuns long_runs;
  const float* unscale;
  std::size_t max_runs, max_long_runs, max_chunks;
};

template <int W, class T, class Rule>
void update_rows(const OpContext& context, const TableUpdate<T>& u,
                 const DeviceRowRule<Rule>& rule) {
  using DeviceRule = DeviceRowRule<Rule>;
  const char* name = EmbeddingUpdate::kName;
  const dim3 block = row_block<W>(u.table.d), fold_block = row_block<W>(u.table.d, kFoldThreads<W>);
  launch(context, name, dim3(grid_for(u.max_runs, block.y)), block, 0,
         &update_short_runs_kernel<W, T, DeviceRule>, u.runs, u.gradients, u.table, u.long_runs,
         rule, u.unscale);
  if (u.max_long_runs == 0) return;
  launch(context, name, dim3(grid_for(u.max_chunks, block.y)), block, 0,
         &sum_chunks_kernel<W, T, false>, u.long_runs, u.gradients);
  launch(context, name, dim3(grid_for(u.max_long_runs, fold_block.y)), fold_block, 0,
         &update_long_runs_kernel<W, DeviceRule>, u.long_runs, u.table, rule, u.unscale);
}

template <int W, int kPacks, class T, class Rule>
void update_rows_row_wise(const OpContext& context, const TableUpdate<T>& u, const Rule& rule,
                          const float* rate) {
  const char* name = EmbeddingUpdate::kName;
  const std::size_t d = u.table.d;
  const unsigned lanes = lanes_of_row(d, W), rows_a_block = kThreads / lanes;
  const dim3 block = row_block<W>(d), fold_block = row_block<W>(d, kFoldThreads<W>);
  launch(context, name, dim3(grid_for(u.max_runs, rows_a_block)), dim3(kThreads), 0,
         &row_wise_short_runs_kernel<W, kPacks, T, Rule>, u.runs, u.gradients, u.table, u.long_runs,
         rule, rate, u.unscale, lanes);
  if (u.max_long_runs == 0) return;
  launch(context, name, dim3(grid_for(u.max_chunks, block.y)), block, 0,
         &sum_chunks_kernel<W, T, false>, u.long_runs, u.gradients);
  launch(context, name, dim3(grid_for(u.max_long_runs, fold_block.y)), fold_block, 0,
         &fold_long_runs_kernel<W>, u.long_runs, d);
  launch(context, name, dim3(grid_for(u.max_long_runs, rows_a_block)), dim3(kThreads), 0,
         &row_wise_long_runs_kernel<W, kPacks, Rule>, u.long_runs, u.table, rule, rate, u.unscale,
         lanes);
}

template <class T, class Rule>
void update_all(const OpContext& context, const EmbeddingUpdate& op, const Rule& rule) {
  const std::size_t d = op.weights.shape[1], max_runs = op.unique_rows.size();

  ScratchParts parts;
  const LongRunMemory memory(parts, op.sorted_buckets.size(), d);
  const std::size_t rate_at = parts.add<float>(1);
  std::size_t rows_at = 0;
  if constexpr (KeepsLastStep<Rule>) rows_at = parts.add<CaughtUp<Rule>>(max_runs);
  const Scratch scratch(context, parts.bytes());

  const TableUpdate<T> u{
      .runs = {op.unique_rows.ptr<std::uint32_t>(), op.run_offsets.ptr<std::uint32_t>(),
               op.run_count.ptr<std::int64_t>()},
      .gradients = bucket_gradients<T>(op.sorted_buckets, op.gradient, op.scale),
      .table = table_of(op),
      .long_runs = memory.in(scratch),
      .unscale = unscale_of(op.unscale),
      .max_runs = max_runs,
      .max_long_runs = memory.max_runs,
      .max_chunks = memory.max_chunks};
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

void embedding_update(const OpContext& context, const EmbeddingUpdate& op) {
  if (op.unique_rows.size() == 0 || op.sorted_buckets.size() == 0 || op.weights.shape[1] == 0) {
    return;
  }
  with_real_type(op.gradient.dtype, [&]<class T>(T) {
    with_row_rule(op.params, [&](const auto& rule) { update_all<T>(context, op, rule); });
  });
}

template <class Rule>
void sweep(const OpContext& context, const EmbeddingSweep& op, const Rule& rule) {
  const std::size_t rows = op.weights.rows(), d = op.weights.shape[1];
  ScratchParts parts;
  const std::size_t rate_at = parts.add<float>(1);
  const std::size_t words = (rows + 31) / 32;
  const std::size_t touched_at = parts.add<std::uint32_t>(words);
  const Scratch scratch(context, parts.bytes());
  auto* touched = part<std::uint32_t>(scratch, touched_at);
  const Runs runs{op.unique_rows.ptr<std::uint32_t>(), nullptr, op.run_count.ptr<std::int64_t>()};
  const Table table = table_of(op);

  const float* rate = prepare(context, op, rule, nullptr, part<float>(scratch, rate_at));
  HCTR_TRY(cudaMemsetAsync(touched, 0, words * sizeof(std::uint32_t), native_stream(context)));
  launch(context, EmbeddingSweep::kName, dim3(grid_for(op.unique_rows.size(), kThreads)),
         dim3(kThreads), 0, &mark_touched_kernel, runs, touched);
  const auto fits = [&](std::size_t w) {
    return row_packs_fit(w, d, d, table.weights, table.s0, table.s1);
  };
  with_row_width<4>(fits, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const dim3 block = row_block<kWidth>(d);
    launch(context, EmbeddingSweep::kName, dim3(grid_for(rows, block.y)), block, 0,
           &sweep_kernel<kWidth, DeviceRowRule<Rule>>, touched, rows, table,
           DeviceRowRule<Rule>{rate, rule}, unscale_of(op.unscale));
  });
}

void embedding_sweep(const OpContext& context, const EmbeddingSweep& op) {
  const std::size_t rows = op.weights.rows(), d = op.weights.shape[1];
  if (rows == 0 || d == 0) return;
  HCTR_CHECK(d <= 1024, EmbeddingSweep::kName, ": vectors of ", d, " are longer than 1024");
  with_row_rule(op.params, [&]<class Rule>(const Rule& rule) {
    if constexpr (Rule::kMovesUntouchedRows) sweep(context, op, rule);
  });
}

const OpRegistration<EmbeddingUpdate> embedding_update_cuda{DeviceType::Cuda, &embedding_update};
const OpRegistration<EmbeddingSweep> embedding_sweep_cuda{DeviceType::Cuda, &embedding_sweep};

}  // namespace
}  // namespace hugectr::cuda
