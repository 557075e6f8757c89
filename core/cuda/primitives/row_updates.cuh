// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cuda/primitives/bucket_gradients.cuh"
#include "core/cuda/primitives/row_rules.cuh"
#include "core/cuda/primitives/run_sums.cuh"

/// Kernels that sum the gradients of the runs of a batch (lookup_sort.hpp) and apply the rule.
///
/// A run of at most 64 occurrences belongs to one worker, which sums it and applies the rule.
/// Longer ones (keys of a power law may come 10^5 times) it lists; their chunks are then summed by
/// a worker each into scratch memory, folded, and only then meet the rule.
namespace hugectr::cuda {

inline constexpr unsigned kShortAhead = 2;  ///< occurrences of a short run under way at once

/// The factor of loss scaling; 0 skips the step.
__device__ inline float value_of(const float* unscale) { return unscale ? __ldg(unscale) : 1.0f; }

struct Run {
  std::uint32_t begin, end, row;
};

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

struct Table {
  float *weights, *s0, *s1;
  std::size_t d;
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

/// Applies the rule to a row that is loaded, with gradient g * scale, and stores it.
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

/// A run of more than one chunk; the sums of its chunks start at `first`.
struct LongRun {
  std::uint32_t begin, end, row, run, first;
  __device__ std::uint32_t chunks() const { return chunks_of(begin, end); }
};

/// Chunks that one worker folds alone: fold_node() of three levels takes up to 15.
inline constexpr std::uint32_t kFewChunks = 15;

struct LongRunCounters {
  unsigned long long runs_and_chunks;  ///< runs << 32 | chunks: both grow together
  unsigned large;
};

/// Long runs in any order: no sum depends on it.
struct LongRuns {
  LongRunCounters* counters;
  LongRun* list;
  std::uint32_t* large;  ///< places in `list` of runs of more than kFewChunks
  float* sums;           ///< one vector a chunk

  __device__ std::uint32_t size() const {
    return static_cast<std::uint32_t>(counters->runs_and_chunks >> 32);
  }
  __device__ std::uint32_t chunks() const {
    return static_cast<std::uint32_t>(counters->runs_and_chunks);
  }
  __device__ void add(std::size_t run_number, const Run& run) const {
    const std::uint32_t count = chunks_of(run.begin, run.end);
    const unsigned long long at = atomicAdd(&counters->runs_and_chunks, 1ull << 32 | count);
    const auto place = static_cast<std::uint32_t>(at >> 32);
    list[place] = {run.begin, run.end, run.row, static_cast<std::uint32_t>(run_number),
                   static_cast<std::uint32_t>(at)};
    if (count > kFewChunks) large[atomicAdd(&counters->large, 1u)] = place;
  }
};

/// Runs of one chunk; lists the others. Moves 4 + size(T) d bytes an occurrence, 12 and
/// (8 + 8 kStates) d bytes a row. One loop over the rounds of all of a worker's runs, so that the
/// workers of a warp stay together however long their runs are.
template <int W, class T, class Rule>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    update_short_runs_kernel(Runs runs, BucketGradients<T> gradients, Table table,
                             LongRuns long_runs, Rule rule, const float* unscale) {
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
  RowElements<W> elements{};
  if (i < end) elements = load_row<W, Rule>(table, now.row * table.d + column);
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
      update_row(table, now.row * table.d + column, elements, rule, run, sum, scale);
    } else if (threadIdx.x == 0) {
      long_runs.add(run, now);
    }
    run += step;
    if (run >= count) return;
    now = next;
    next = after;
    sum = {};
    if (i < end) elements = load_row<W, Rule>(table, now.row * table.d + column);
  }
}

/// Sums of all chunks of long runs; a worker takes neighbouring ones.
template <int W, class T>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    sum_chunks_kernel(LongRuns long_runs, BucketGradients<T> gradients) {
  const std::uint32_t run_count = long_runs.size(), chunk_count = long_runs.chunks();
  const auto workers = static_cast<std::uint32_t>(row_worker_count());
  const std::uint32_t each = (chunk_count + workers - 1) / workers;
  std::size_t chunk = row_worker() * each;
  const std::size_t stop = min(chunk + each, std::size_t{chunk_count});
  if (chunk >= stop) return;
  const unsigned column = threadIdx.x * W;
  std::uint32_t low = 0, high = run_count;  // the last run that starts at `chunk` or before
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (long_runs.list[middle].first <= chunk ? low : high) = middle;
  }
  LongRun run = long_runs.list[low];
  for (; chunk < stop; ++chunk) {
    if (chunk - run.first == run.chunks()) run = long_runs.list[++low];
    const std::uint32_t begin =
        run.begin + (static_cast<std::uint32_t>(chunk) - run.first) * kChunk;
    store_pack<W>(long_runs.sums + chunk * gradients.d + column,
                  sum_occurrences<W, 8>(gradients, begin, min(begin + kChunk, run.end), column));
  }
}

/// Threads of a block that folds a long run: more workers than elsewhere, as only a block works on
/// it.
template <int W>
inline constexpr unsigned kFoldThreads = W == 4 ? 512 : 1024;

/// Long runs: those of few chunks a worker each, then the others a block each.
template <int W, class Rule>
__global__ void __launch_bounds__(kFoldThreads<W>)
    update_long_runs_kernel(LongRuns long_runs, Table table, Rule rule, const float* unscale) {
  const float scale = value_of(unscale);
  const std::uint32_t count = long_runs.size(), large = long_runs.counters->large;
  const unsigned column = threadIdx.x * W;
  const auto update = [&](const LongRun& run, const float* sums) {
    const std::size_t at = run.row * table.d + column;
    update_row(table, at, load_row<W, Rule>(table, at), rule, run.run, load_pack<W>(sums), scale);
  };
  for (std::size_t i = row_worker(); i < count; i += row_worker_count()) {
    const LongRun run = long_runs.list[i];
    if (run.chunks() > kFewChunks) continue;
    float* sums = long_runs.sums + run.first * table.d + column;
    fold_few<W>(run.chunks(), sums, table.d);
    update(run, sums);
  }
  for (std::uint32_t i = blockIdx.x; i < large; i += gridDim.x) {
    const LongRun run = long_runs.list[long_runs.large[i]];
    float* sums = long_runs.sums + run.first * table.d + column;
    fold_run<W>(run.chunks(), sums, table.d);
    if (threadIdx.y == 0) update(run, sums);
  }
}

}  // namespace hugectr::cuda
