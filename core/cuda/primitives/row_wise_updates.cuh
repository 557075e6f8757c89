// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/cuda/primitives/row_updates.cuh"

/// Kernels for rules with one number a row, which must know a row's whole gradient before the first
/// weight changes: lanes of one warp hold it in registers and add up its squares, always in the
/// same order. Runs are cut and summed as in row_updates.cuh.
namespace hugectr::cuda {

/// Packs of a row that a lane may have to hold; rows have up to 1024 numbers.
template <int W>
inline constexpr int kMostPacks = 1024 / W / 32;

/// Lanes that share a row: a power of two, so that they lie in one warp.
inline unsigned lanes_of_row(std::size_t d, std::size_t w) {
  return std::min(32u, std::bit_ceil(static_cast<unsigned>(d / w)));
}

/// A thread's place among the groups of lanes of the grid.
struct LaneGroup {
  unsigned lanes, lane, mask;
  std::size_t number, count;
  __device__ explicit LaneGroup(unsigned width) : lanes(width) {
    const unsigned in_warp = threadIdx.x % 32;
    lane = in_warp % lanes;
    mask = (lanes == 32 ? ~0u : (1u << lanes) - 1) << (in_warp - lane);
    const unsigned a_block = blockDim.x / lanes;
    number = static_cast<std::size_t>(blockIdx.x) * a_block + threadIdx.x / lanes;
    count = static_cast<std::size_t>(gridDim.x) * a_block;
  }
  /// The sum over the group, the same bits in all its lanes. All of them call it.
  __device__ float sum(float value) const {
    for (unsigned step = lanes / 2; step > 0; step /= 2) {
      value += __shfl_xor_sync(mask, value, step);
    }
    return value;
  }
};

/// Applies the rule to a row, the run-th to update. load(column) gives W numbers of its gradient,
/// before `scale`.
template <int W, int kPacks, class Rule, class Weight, class Load>
__device__ void update_row_wise(const LaneGroup& group, const Table<Weight>& table, std::size_t row,
                                std::size_t run, const Rule& rule, float rate, float scale,
                                const Load& load) {
  constexpr bool kKept = std::is_same_v<Weight, float>;  // as it is computed
  const auto packs = static_cast<unsigned>(table.d / W);
  Pack<float, W> g[kPacks];
  float squares = 0.0f;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const unsigned pack = group.lane + k * group.lanes;
    if (pack >= packs) continue;
    g[k] = load(pack * W);
#pragma unroll
    for (int i = 0; i < W; ++i) g[k].v[i] *= scale;
    if (table.adjustment) {  // weights that decay are written here and read again below, or not yet
      Weight* const at = table.weights + row * table.d + pack * W;
      Pack<float, W> w = KeptPack<W, Weight>::load(at).widened();
      adjust(*table.adjustment, w, g[k]);
      if constexpr (kKept) store_pack<W>(at, w);
    }
#pragma unroll
    for (int i = 0; i < W; ++i) squares = fmaf(g[k].v[i], g[k].v[i], squares);
  }
  const float mean = group.sum(squares) / static_cast<float>(table.d);
  float state = table.s0[row];
  const auto begun = rule.row(rate, state, mean);
  __syncwarp(group.mask);  // all lanes have read it
  if (group.lane == 0) table.s0[row] = state;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const unsigned pack = group.lane + k * group.lanes;
    if (pack >= packs) continue;
    Weight* const at = table.weights + row * table.d + pack * W;
    Pack<float, W> w = KeptPack<W, Weight>::load(at).widened();
    if constexpr (!kKept) {
      Pack<float, W> seen = g[k];  // what it does to a weight does not depend on the gradient
      if (table.adjustment) adjust(*table.adjustment, w, seen);
    }
    float none = 0.0f;
#pragma unroll
    for (int i = 0; i < W; ++i) rule.element(begun, w.v[i], none, none, g[k].v[i]);
    table.store(at, pack * W, table.stream(run), w);
  }
}

/// Runs of one chunk; lists the others. Moves 4 + size(T) d bytes an occurrence, 20 + 8 d a row.
template <int W, int kPacks, class T, class Rule, class Weight>
__global__ void __launch_bounds__(kThreads)
    row_wise_short_runs_kernel(Runs runs, BucketGradients<T> gradients, Table<Weight> table,
                               LongRuns long_runs, Rule rule, const float* rate,
                               const float* unscale, unsigned lanes) {
  const float scale = value_of(unscale);
  if (scale == 0.0f) return;  // a skipped step
  const LaneGroup group(lanes);
  const std::size_t run_count = runs.size();
  for (std::size_t i = group.number; i < run_count; i += group.count) {
    const Run run = runs.at(i, run_count);
    if (run.end - run.begin > kChunk) {
      if (group.lane == 0) long_runs.add(i, run);
      continue;
    }
    update_row_wise<W, kPacks>(
        group, table, run.row, i, rule, __ldg(rate), scale, [&](unsigned column) {
          return sum_occurrences<W, kShortAhead>(gradients, run.begin, run.end, column);
        });
  }
}

/// Leaves the sum of a long run where its first chunk's was.
template <int W>
__global__ void __launch_bounds__(kFoldThreads<W>)
    fold_long_runs_kernel(LongRuns long_runs, std::size_t d) {
  fold_long_runs<W>(long_runs, d, [](const LongRun&, const float*) {});
}

/// Rows of long runs that are folded.
template <int W, int kPacks, class Rule, class Weight>
__global__ void __launch_bounds__(kThreads)
    row_wise_long_runs_kernel(LongRuns long_runs, Table<Weight> table, Rule rule, const float* rate,
                              const float* unscale, unsigned lanes) {
  const float scale = value_of(unscale);
  const LaneGroup group(lanes);
  const std::uint32_t run_count = long_runs.size();
  for (std::size_t i = group.number; i < run_count; i += group.count) {
    const LongRun run = long_runs.list[i];
    const float* const sum = long_runs.sums + run.first * table.d;
    update_row_wise<W, kPacks>(group, table, run.row, run.run, rule, __ldg(rate), scale,
                               [&](unsigned column) { return load_pack<W>(sum + column); });
  }
}

}  // namespace hugectr::cuda
