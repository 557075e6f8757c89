// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cuda/primitives/bucket_gradients.cuh"
#include "core/cuda/primitives/long_runs.cuh"
#include "core/cuda/primitives/row_rounding.cuh"
#include "core/cuda/primitives/row_rules.cuh"

/// Kernels that sum the gradients of the runs of a batch (lookup_sort.hpp) and apply the rule: a
/// short run belongs to one worker, which sums it and applies the rule; long ones (long_runs.cuh)
/// meet the rule when they are folded.
namespace hugectr::cuda {

inline constexpr unsigned kShortAhead = 2;  ///< occurrences of a short run under way at once

/// The factor of loss scaling; 0 skips the step.
__device__ inline float value_of(const float* unscale) { return unscale ? __ldg(unscale) : 1.0f; }

struct Runs {
  const std::uint32_t* rows;
  const std::uint32_t* offsets;
  const std::int64_t* count;
  __device__ std::size_t size() const { return static_cast<std::size_t>(*count); }
  /// Run i, or nothing when there are fewer.
  __device__ Run at(std::size_t i, std::size_t run_count) const {
    return i < run_count ? Run{offsets[i], offsets[i + 1], rows[i]} : Run{};
  }
};

/// Weight: what vectors are kept in, float or BFloat16. By which they are rounded is a base, so
/// that it takes no room where it is nothing: arguments of kernels have little.
template <class Weight>
struct Table : RoundedBy<Weight> {
  Weight* weights;
  float *s0, *s1;
  std::size_t d;
  const StepAdjustment* adjustment;  ///< null: nothing is done before the rule
};

/// What is done before the rule to W weights and their gradients.
template <int W>
__device__ void adjust(const StepAdjustment& step, Pack<float, W>& w, Pack<float, W>& g) {
#pragma unroll
  for (int k = 0; k < W; ++k) step.of(step.kept, w.v[k], g.v[k]);
}

template <int W, class Weight>
struct RowElements {
  KeptPack<W, Weight> w;
  Pack<float, W> s0, s1;
  RowStream<Weight> stream;  ///< by which it is rounded
};

template <int W, class Rule, class Weight>
__device__ RowElements<W, Weight> load_row(const Table<Weight>& table, std::size_t at) {
  RowElements<W, Weight> row{};
  row.w = KeptPack<W, Weight>::load(table.weights + at);
  if constexpr (Rule::kStates > 0) row.s0 = load_pack<W>(table.s0 + at);
  if constexpr (Rule::kStates > 1) row.s1 = load_pack<W>(table.s1 + at);
  return row;
}
/// The same of the run-th row to update.
template <int W, class Rule, class Weight>
__device__ RowElements<W, Weight> load_row(const Table<Weight>& table, std::size_t at,
                                           std::size_t run) {
  RowElements<W, Weight> row = load_row<W, Rule>(table, at);
  row.stream = table.stream(run);
  return row;
}

/// Applies the rule to a row that is loaded, from `column` on at `at`, with gradient g * scale, and
/// stores it.
template <int W, class Rule, class Weight>
__device__ void update_row(const Table<Weight>& table, std::size_t at, unsigned column,
                           RowElements<W, Weight> row, const Rule& rule, std::size_t run,
                           Pack<float, W> g, float scale) {
  const auto shared = rule.row(run);
#pragma unroll
  for (int k = 0; k < W; ++k) g.v[k] *= scale;
  Pack<float, W> w = row.w.widened();
  if (table.adjustment) adjust(*table.adjustment, w, g);
#pragma unroll
  for (int k = 0; k < W; ++k) rule(shared, w.v[k], row.s0.v[k], row.s1.v[k], g.v[k]);
  table.store(table.weights + at, column, row.stream, w);
  if constexpr (Rule::kStates > 0) store_pack<W>(table.s0 + at, row.s0);
  if constexpr (Rule::kStates > 1) store_pack<W>(table.s1 + at, row.s1);
}

/// Runs of one chunk; lists the others. Moves 4 + size(T) d bytes an occurrence, 12 and
/// (8 + 8 kStates) d bytes a row. One loop over the rounds of all of a worker's runs, so that the
/// workers of a warp stay together however long their runs are.
template <int W, class T, class Rule, class Weight>
__device__ __forceinline__ void update_short_runs(const Runs& runs,
                                                  const BucketGradients<T>& gradients,
                                                  const Table<Weight>& table,
                                                  const LongRuns& long_runs, const Rule& rule,
                                                  const float* unscale) {
  const float scale = value_of(unscale);
  if (scale == 0.0f) return;  // a skipped step
  const std::size_t count = runs.size(), step = row_worker_count();
  const unsigned column = threadIdx.x * W;
  std::size_t run = row_worker();
  if (run >= count) return;
  // Where a long run's occurrences would end: before they begin.
  const auto end_of = [](const Run& r) { return r.end - r.begin > kChunk ? r.begin : r.end; };
  Run now = runs.at(run, count), next = runs.at(run + step, count);
  std::uint32_t i = now.begin, end = end_of(now);
  Occurrences<kShortAhead> occurrences(gradients, i, end);
  RowElements<W, Weight> elements{};
  if (i < end) elements = load_row<W, Rule>(table, now.row * table.d + column, run);
  Pack<float, W> sum{};
  while (true) {
    const OccurrenceVectors<W, kShortAhead, T> vectors(gradients, occurrences, column);
    i += vectors.count;
    const bool last = i == end;
    Run after{};
    if (last) {
      i = next.begin;
      end = end_of(next);
      after = runs.at(run + 2 * step, count);
    }
    occurrences = Occurrences<kShortAhead>(gradients, i, end);
    vectors.add_to(sum);
    if (!last) continue;
    if (vectors.count > 0) {
      update_row(table, now.row * table.d + column, column, elements, rule, run, sum, scale);
    } else if (threadIdx.x == 0) {
      long_runs.add(run, now);
    }
    run += step;
    if (run >= count) return;
    now = next;
    next = after;
    sum = {};
    if (i < end) elements = load_row<W, Rule>(table, now.row * table.d + column, run);
  }
}

template <int W, class T, class Rule>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    update_short_runs_kernel(Runs runs, BucketGradients<T> gradients, Table<float> table,
                             LongRuns long_runs, Rule rule, const float* unscale) {
  update_short_runs<W>(runs, gradients, table, long_runs, rule, unscale);
}

/// Folds the long runs and applies the rule to their rows.
template <int W, class Rule, class Weight>
__device__ __forceinline__ void update_long_runs(const LongRuns& long_runs,
                                                 const Table<Weight>& table, const Rule& rule,
                                                 const float* unscale) {
  const float scale = value_of(unscale);
  fold_long_runs<W>(long_runs, table.d, [&](const LongRun& run, const float* sums) {
    const unsigned column = threadIdx.x * W;
    const std::size_t at = run.row * table.d + column;
    update_row(table, at, column, load_row<W, Rule>(table, at, run.run), rule, run.run,
               load_pack<W>(sums), scale);
  });
}

template <int W, class Rule>
__global__ void __launch_bounds__(kFoldThreads<W>)
    update_long_runs_kernel(LongRuns long_runs, Table<float> table, Rule rule,
                            const float* unscale) {
  update_long_runs<W>(long_runs, table, rule, unscale);
}

}  // namespace hugectr::cuda
