// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/ops/embedding_update.hpp"
#include "core/cpp/ops/loops/row_update_rules.hpp"
#include "core/cuda/device/scratch_parts.hpp"
#include "core/cuda/primitives/row_updates.cuh"

namespace hugectr::cuda {
namespace {

// What Adam LazyGlobal owes every touched row; marks the rows as brought up to this step.
__global__ void catch_up_kernel(Runs runs, const float* lr, const std::int64_t* step_number,
                                const float* unscale, float beta1, float beta2,
                                std::int64_t* last_step, AdamCatchUp* skipped) {
  if (value_of(unscale) == 0.0f) return;
  const std::size_t count = runs.size();
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t run = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       run < count; run += step) {
    std::int64_t& last = last_step[runs.rows[run]];
    skipped[run] = adam_catch_up(*lr, beta1, beta2, last, *step_number);
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

// What the other kernels find ready: no long runs yet, and Adam's learning rate of the step (in a
// kernel of its own: double powers would cost the others registers).
__global__ void prepare_kernel(const float* lr, const std::int64_t* step, float beta1, float beta2,
                               LongRunCounters* counters, float* lr_t) {
  if (counters) *counters = {};
  if (lr_t) *lr_t = adam_learning_rate(*lr, beta1, beta2, *step);
}

template <class Op>
void prepare(const OpContext& context, const Op& op, LongRunCounters* counters, float* lr_t) {
  const bool rate = op.params.optimizer == Optimizer::Adam && !keeps_last_step(op.params);
  if (!rate && !counters) return;
  launch(context, Op::kName, dim3(1), dim3(1), 0, &prepare_kernel, op.lr.template ptr<float>(),
         op.step.template ptr<std::int64_t>(), op.params.beta1, op.params.beta2, counters,
         rate ? lr_t : nullptr);
}

const float* unscale_of(const TensorRef& unscale) {
  return unscale.empty() ? nullptr : unscale.ptr<float>();
}

template <class T>
void update_all(const OpContext& context, const EmbeddingUpdate& op) {
  const char* name = EmbeddingUpdate::kName;
  const std::size_t d = op.weights.shape[1], max_runs = op.unique_rows.size();
  const bool lazy = keeps_last_step(op.params);

  ScratchParts parts;
  const LongRunMemory memory(parts, op.sorted_buckets.size(), d);
  const std::size_t rate_at = parts.add<float>(1);
  const std::size_t skipped_at = parts.add<AdamCatchUp>(lazy ? max_runs : 0);
  const Scratch scratch(context, parts.bytes());

  const Runs runs{op.unique_rows.ptr<std::uint32_t>(), op.run_offsets.ptr<std::uint32_t>(),
                  op.run_count.ptr<std::int64_t>()};
  const LongRuns long_runs = memory.in(scratch);
  const auto gradients = bucket_gradients<T>(op.sorted_buckets, op.gradient, op.scale);
  const Table table = table_of(op);
  const float* unscale = unscale_of(op.unscale);

  prepare(context, op, memory.max_runs > 0 ? long_runs.counters : nullptr,
          part<float>(scratch, rate_at));
  if (lazy) {
    launch(context, name, dim3(grid_for(max_runs, kThreads)), dim3(kThreads), 0, &catch_up_kernel,
           runs, op.lr.ptr<float>(), op.step.ptr<std::int64_t>(), unscale, op.params.beta1,
           op.params.beta2, op.last_step.ptr<std::int64_t>(),
           part<AdamCatchUp>(scratch, skipped_at));
  }
  const auto fits = [&](std::size_t w) {
    return row_packs_fit(w, d, op.gradient.row_stride, gradients.gradient) &&
           row_packs_fit(w, d, d, table.weights, table.s0, table.s1);
  };
  with_row_width<4>(fits, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const dim3 block = row_block<kWidth>(d);
    const dim3 fold_block = row_block<kWidth>(d, kFoldThreads<kWidth>);
    with_device_row_rule(op.params, op.lr.ptr<float>(), part<float>(scratch, rate_at),
                         part<AdamCatchUp>(scratch, skipped_at), [&]<class Rule>(const Rule& rule) {
                           launch(context, name, dim3(grid_for(max_runs, block.y)), block, 0,
                                  &update_short_runs_kernel<kWidth, T, Rule>, runs, gradients,
                                  table, long_runs, rule, unscale);
                           if (memory.max_runs == 0) return;
                           launch(context, name, dim3(grid_for(memory.max_chunks, block.y)), block,
                                  0, &sum_chunks_kernel<kWidth, T, false>, long_runs, gradients);
                           launch(context, name, dim3(grid_for(memory.max_runs, fold_block.y)),
                                  fold_block, 0, &update_long_runs_kernel<kWidth, Rule>, long_runs,
                                  table, rule, unscale);
                         });
  });
}

void embedding_update(const OpContext& context, const EmbeddingUpdate& op) {
  if (op.unique_rows.size() == 0 || op.sorted_buckets.size() == 0 || op.weights.shape[1] == 0) {
    return;
  }
  with_real_type(op.gradient.dtype, [&]<class T>(T) { update_all<T>(context, op); });
}

void embedding_sweep(const OpContext& context, const EmbeddingSweep& op) {
  const std::size_t rows = op.weights.rows(), d = op.weights.shape[1];
  if (rows == 0 || d == 0) return;
  HCTR_CHECK(d <= 1024, EmbeddingSweep::kName, ": vectors of ", d, " are longer than 1024");
  ScratchParts parts;
  const std::size_t rate_at = parts.add<float>(1);
  const std::size_t words = (rows + 31) / 32;
  const std::size_t touched_at = parts.add<std::uint32_t>(words);
  const Scratch scratch(context, parts.bytes());
  auto* touched = part<std::uint32_t>(scratch, touched_at);
  const Runs runs{op.unique_rows.ptr<std::uint32_t>(), nullptr, op.run_count.ptr<std::int64_t>()};
  const Table table = table_of(op);
  const float* unscale = unscale_of(op.unscale);

  prepare(context, op, nullptr, part<float>(scratch, rate_at));
  HCTR_TRY(cudaMemsetAsync(touched, 0, words * sizeof(std::uint32_t), native_stream(context)));
  launch(context, EmbeddingSweep::kName, dim3(grid_for(op.unique_rows.size(), kThreads)),
         dim3(kThreads), 0, &mark_touched_kernel, runs, touched);
  const auto fits = [&](std::size_t w) {
    return row_packs_fit(w, d, d, table.weights, table.s0, table.s1);
  };
  with_row_width<4>(fits, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const dim3 block = row_block<kWidth>(d);
    with_device_row_rule(op.params, op.lr.ptr<float>(), part<float>(scratch, rate_at), nullptr,
                         [&]<class Rule>(const Rule& rule) {
                           launch(context, EmbeddingSweep::kName, dim3(grid_for(rows, block.y)),
                                  block, 0, &sweep_kernel<kWidth, Rule>, touched, rows, table, rule,
                                  unscale);
                         });
  });
}

const OpRegistration<EmbeddingUpdate> embedding_update_cuda{DeviceType::Cuda, &embedding_update};
const OpRegistration<EmbeddingSweep> embedding_sweep_cuda{DeviceType::Cuda, &embedding_sweep};

}  // namespace
}  // namespace hugectr::cuda
