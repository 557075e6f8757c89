// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/ops/embedding_update.hpp"
#include "core/cpp/ops/loops/row_update_rules.hpp"
#include "core/cuda/memory/scratch.hpp"
#include "core/cuda/primitives/row_rules.cuh"
#include "core/cuda/primitives/run_sums.cuh"

/// A run of at most 64 occurrences belongs to one worker, which sums it and applies the rule. The
/// chunks of longer ones (keys of a power law may come 10^5 times) are summed by a worker each into
/// scratch memory, folded by a block a run, and only then meet the rule.
namespace hugectr::cuda {
namespace {

// Threads of a block that folds a long run: more workers than elsewhere, as only a block works on
// it.
template <int W>
inline constexpr unsigned kFoldThreads = W == 4 ? 512 : 1024;

struct Runs {
  const std::uint32_t* rows;
  const std::uint32_t* offsets;
  const std::int64_t* count;
  __device__ std::size_t size() const { return static_cast<std::size_t>(*count); }
};

struct Table {
  float *weights, *s0, *s1;
  std::size_t d;
};

// The factor of loss scaling; 0 skips the step.
__device__ float value_of(const float* unscale) { return unscale ? __ldg(unscale) : 1.0f; }

// A run of more than one chunk; the sums of its chunks start at `first`.
struct LongRun {
  std::uint32_t run, first;
};

// Long runs, in any order; both numbers grow with it. No sum depends on the order.
struct LongRuns {
  LongRun* list;
  unsigned long long* counter;  // runs << 32 | chunks
  float* sums;                  // one vector a chunk
  __device__ std::uint32_t size() const { return static_cast<std::uint32_t>(*counter >> 32); }
  __device__ std::uint32_t chunks() const { return static_cast<std::uint32_t>(*counter); }
};

template <int W>
struct RowElements {
  Pack<float, W> w, s0, s1;
};

template <int W, class Rule>
__device__ RowElements<W> load_row(const Table& table, std::size_t at) {
  RowElements<W> row{};
  row.w = load_pack<W>(table.weights + at);
  if constexpr (Rule::kStates > 0) row.s0 = load_pack<W>(table.s0 + at);
  if constexpr (Rule::kStates > 1) row.s1 = load_pack<W>(table.s1 + at);
  return row;
}

// Applies the rule to a row that is loaded, with gradient g * scale, and stores it.
template <int W, class Rule>
__device__ void update_row(const Table& table, std::size_t at, RowElements<W> row, const Rule& rule,
                           std::size_t run, const Pack<float, W>& g, float scale) {
  const auto shared = rule.row(run);
#pragma unroll
  for (int k = 0; k < W; ++k) rule(shared, row.w.v[k], row.s0.v[k], row.s1.v[k], g.v[k] * scale);
  store_pack<W>(table.weights + at, row.w);
  if constexpr (Rule::kStates > 0) store_pack<W>(table.s0 + at, row.s0);
  if constexpr (Rule::kStates > 1) store_pack<W>(table.s1 + at, row.s1);
}

// Lists none when the step is skipped: then the kernels that follow find nothing to do.
__global__ void list_long_runs_kernel(Runs runs, LongRuns long_runs, const float* unscale) {
  if (value_of(unscale) == 0.0f) return;
  const std::size_t count = runs.size();
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t run = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       run < count; run += step) {
    const std::uint32_t chunks = chunks_of(runs.offsets[run], runs.offsets[run + 1]);
    if (chunks <= 1) continue;
    const unsigned long long at = atomicAdd(long_runs.counter, 1ull << 32 | chunks);
    long_runs.list[at >> 32] = {static_cast<std::uint32_t>(run), static_cast<std::uint32_t>(at)};
  }
}

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

// In a kernel of its own: double powers would cost the others registers.
__global__ void adam_rate_kernel(const float* lr, const std::int64_t* step, float beta1,
                                 float beta2, float* lr_t) {
  *lr_t = adam_learning_rate(*lr, beta1, beta2, *step);
}

// Sums of all chunks of long runs, a worker each.
template <int W>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    sum_chunks_kernel(Runs runs, LongRuns long_runs, BucketGradients gradients) {
  const std::uint32_t run_count = long_runs.size(), chunk_count = long_runs.chunks();
  const unsigned column = threadIdx.x * W;
  for (std::size_t chunk = row_worker(); chunk < chunk_count; chunk += row_worker_count()) {
    std::uint32_t low = 0, high = run_count;  // the last run that starts at `chunk` or before
    while (high - low > 1) {
      const std::uint32_t middle = low + (high - low) / 2;
      (long_runs.list[middle].first <= chunk ? low : high) = middle;
    }
    const LongRun run = long_runs.list[low];
    const std::uint32_t begin =
        runs.offsets[run.run] + (static_cast<std::uint32_t>(chunk) - run.first) * kChunk;
    const std::uint32_t end = min(begin + kChunk, runs.offsets[run.run + 1]);
    store_pack<W>(long_runs.sums + chunk * gradients.d + column,
                  gradients.sum<W, 8>(begin, end, column));
  }
}

// Runs of one chunk. Moves 4 + 4 d bytes an occurrence, 8 and (8 + 8 kStates) d bytes a row.
template <int W, class Rule>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    update_short_runs_kernel(Runs runs, BucketGradients gradients, Table table, Rule rule,
                             const float* unscale) {
  const float scale = value_of(unscale);
  if (scale == 0.0f) return;  // a skipped step
  const std::size_t count = runs.size(), step = row_worker_count();
  const unsigned column = threadIdx.x * W;
  std::size_t run = row_worker();
  if (run >= count) return;
  std::uint32_t begin = runs.offsets[run], end = runs.offsets[run + 1], row = runs.rows[run];
  while (true) {
    // Where the next run lies is fetched while this one is summed.
    const std::size_t next = run + step;
    std::uint32_t next_begin = 0, next_end = 0, next_row = 0;
    if (next < count) {
      next_begin = runs.offsets[next];
      next_end = runs.offsets[next + 1];
      next_row = runs.rows[next];
    }
    if (end - begin <= kChunk) {
      const std::size_t at = row * table.d + column;
      const RowElements<W> elements = load_row<W, Rule>(table, at);
      update_row(table, at, elements, rule, run, gradients.sum<W, 4>(begin, end, column), scale);
    }
    if (next >= count) return;
    run = next;
    begin = next_begin;
    end = next_end;
    row = next_row;
  }
}

// Long runs, a block each.
template <int W, class Rule>
__global__ void __launch_bounds__(kFoldThreads<W>)
    update_long_runs_kernel(Runs runs, LongRuns long_runs, Table table, Rule rule,
                            const float* unscale) {
  const float scale = value_of(unscale);
  const std::uint32_t count = long_runs.size();
  const unsigned column = threadIdx.x * W;
  for (std::uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    const LongRun run = long_runs.list[i];
    float* sums = long_runs.sums + run.first * table.d + column;
    fold_run<W>(chunks_of(runs.offsets[run.run], runs.offsets[run.run + 1]), sums, table.d);
    if (threadIdx.y == 0) {
      const std::size_t at = runs.rows[run.run] * table.d + column;
      update_row(table, at, load_row<W, Rule>(table, at), rule, run.run, load_pack<W>(sums), scale);
    }
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

// Parts of one piece of scratch memory, each aligned to 256 bytes.
class Parts {
 public:
  template <class T>
  std::size_t add(std::size_t count) {
    const std::size_t at = bytes_;
    bytes_ += (count * sizeof(T) + 255) / 256 * 256;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

template <class T>
T* part(const Scratch& scratch, std::size_t at) {
  return reinterpret_cast<T*>(static_cast<char*>(scratch.data()) + at);
}

// Writes Adam's learning rate of the step where the rule looks for it.
template <class Op>
void prepare_rate(const OpContext& context, const Op& op, float* lr_t) {
  if (op.params.optimizer != Optimizer::Adam || keeps_last_step(op.params)) return;
  launch(context, Op::kName, dim3(1), dim3(1), 0, &adam_rate_kernel, op.lr.template ptr<float>(),
         op.step.template ptr<std::int64_t>(), op.params.beta1, op.params.beta2, lr_t);
}

void embedding_update(const OpContext& context, const EmbeddingUpdate& op) {
  const std::size_t d = op.weights.shape[1], max_runs = op.unique_rows.size();
  const std::size_t occurrences = op.sorted_buckets.size();
  if (max_runs == 0 || occurrences == 0 || d == 0) return;
  const char* name = EmbeddingUpdate::kName;
  // Every long run has at least 65 occurrences and loses less than a chunk to its last one.
  const std::size_t max_long = occurrences / (kChunk + 1);
  const std::size_t max_chunks = occurrences / kChunk + max_long;
  const bool lazy = keeps_last_step(op.params);

  Parts parts;
  const std::size_t counter_at = parts.add<unsigned long long>(1);
  const std::size_t rate_at = parts.add<float>(1);
  const std::size_t list_at = parts.add<LongRun>(max_long);
  const std::size_t sums_at = parts.add<float>(max_long > 0 ? max_chunks * d : 0);
  const std::size_t skipped_at = parts.add<AdamCatchUp>(lazy ? max_runs : 0);
  const Scratch scratch(context, parts.bytes());

  const Runs runs{op.unique_rows.ptr<std::uint32_t>(), op.run_offsets.ptr<std::uint32_t>(),
                  op.run_count.ptr<std::int64_t>()};
  const LongRuns long_runs{part<LongRun>(scratch, list_at),
                           part<unsigned long long>(scratch, counter_at),
                           part<float>(scratch, sums_at)};
  const std::size_t slots = op.gradient.shape[1];
  const BucketGradients gradients{op.sorted_buckets.ptr<std::uint32_t>(),
                                  op.gradient.ptr<float>(),
                                  op.scale.empty() ? nullptr : op.scale.ptr<float>(),
                                  d,
                                  op.gradient.row_stride,
                                  FastDivide(slots),
                                  op.gradient.row_stride == slots * d};
  const Table table = table_of(op);
  const float* unscale = op.unscale.empty() ? nullptr : op.unscale.ptr<float>();
  const dim3 run_grid(grid_for(max_runs, kThreads));

  prepare_rate(context, op, part<float>(scratch, rate_at));
  if (lazy) {
    launch(context, name, run_grid, dim3(kThreads), 0, &catch_up_kernel, runs, op.lr.ptr<float>(),
           op.step.ptr<std::int64_t>(), unscale, op.params.beta1, op.params.beta2,
           op.last_step.ptr<std::int64_t>(), part<AdamCatchUp>(scratch, skipped_at));
  }
  if (max_long > 0) {
    HCTR_TRY(
        cudaMemsetAsync(long_runs.counter, 0, sizeof *long_runs.counter, native_stream(context)));
    launch(context, name, run_grid, dim3(kThreads), 0, &list_long_runs_kernel, runs, long_runs,
           unscale);
  }
  with_row_width(d, op.gradient.row_stride, {gradients.gradient, table.weights, table.s0, table.s1},
                 [&](auto width) {
                   constexpr int kWidth = decltype(width)::value;
                   const dim3 block = row_block<kWidth>(d);
                   const dim3 fold_block = row_block<kWidth>(d, kFoldThreads<kWidth>);
                   if (max_long > 0) {
                     launch(context, name, dim3(grid_for(max_chunks, block.y)), block, 0,
                            &sum_chunks_kernel<kWidth>, runs, long_runs, gradients);
                   }
                   with_device_row_rule(
                       op.params, op.lr.ptr<float>(), part<float>(scratch, rate_at),
                       part<AdamCatchUp>(scratch, skipped_at), [&]<class Rule>(const Rule& rule) {
                         launch(context, name, dim3(grid_for(max_runs, block.y)), block, 0,
                                &update_short_runs_kernel<kWidth, Rule>, runs, gradients, table,
                                rule, unscale);
                         launch(context, name, dim3(max_long > 0 ? grid_for(max_long, 1) : 0),
                                fold_block, 0, &update_long_runs_kernel<kWidth, Rule>, runs,
                                long_runs, table, rule, unscale);
                       });
                 });
}

void embedding_sweep(const OpContext& context, const EmbeddingSweep& op) {
  const std::size_t rows = op.weights.rows(), d = op.weights.shape[1];
  if (rows == 0 || d == 0) return;
  HCTR_CHECK(d <= 1024, EmbeddingSweep::kName, ": vectors of ", d, " are longer than 1024");
  Parts parts;
  const std::size_t rate_at = parts.add<float>(1);
  const std::size_t words = (rows + 31) / 32;
  const std::size_t touched_at = parts.add<std::uint32_t>(words);
  const Scratch scratch(context, parts.bytes());
  auto* touched = part<std::uint32_t>(scratch, touched_at);
  const Runs runs{op.unique_rows.ptr<std::uint32_t>(), nullptr, op.run_count.ptr<std::int64_t>()};
  const Table table = table_of(op);
  const float* unscale = op.unscale.empty() ? nullptr : op.unscale.ptr<float>();

  prepare_rate(context, op, part<float>(scratch, rate_at));
  HCTR_TRY(cudaMemsetAsync(touched, 0, words * sizeof(std::uint32_t), native_stream(context)));
  launch(context, EmbeddingSweep::kName, dim3(grid_for(op.unique_rows.size(), kThreads)),
         dim3(kThreads), 0, &mark_touched_kernel, runs, touched);
  with_row_width(d, d, {table.weights, table.s0, table.s1}, [&](auto width) {
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
