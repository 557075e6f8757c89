// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cuda/primitives/many.cuh"
#include "core/cuda/primitives/row_updates.cuh"

/// The kernels of an update (row_updates.cuh) over several tables of one vector size.
namespace hugectr::cuda {

/// One table's part.
template <class T, class Rule, class Weight>
struct TableRuns {
  Runs runs;
  BucketGradients<T> gradients;
  Table<Weight> table;
  LongRuns long_runs;
  Rule rule;  ///< a DeviceRowRule
  const float* unscale;
  std::uint32_t max_runs, max_long_runs, max_chunks;  ///< what grids are made for
};

template <int W, class T, class Rule, class Weight>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    update_many_short_runs_kernel(const __grid_constant__ Many<TableRuns<T, Rule, Weight>> many) {
  const TableRuns<T, Rule, Weight>& a = many.mine();
  update_short_runs<W>(a.runs, a.gradients, a.table, a.long_runs, a.rule, a.unscale);
}

template <int W, class T, class Rule, class Weight>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    sum_many_chunks_kernel(const __grid_constant__ Many<TableRuns<T, Rule, Weight>> many) {
  const TableRuns<T, Rule, Weight>& a = many.mine();
  sum_chunks<W, T, false>(a.long_runs, a.gradients);
}

template <int W, class T, class Rule, class Weight>
__global__ void __launch_bounds__(kFoldThreads<W>)
    update_many_long_runs_kernel(const __grid_constant__ Many<TableRuns<T, Rule, Weight>> many) {
  const TableRuns<T, Rule, Weight>& a = many.mine();
  update_long_runs<W>(a.long_runs, a.table, a.rule, a.unscale);
}

/// `all`: tables of d numbers a row that can be read W at a time.
template <int W, class T, class Rule, class Weight>
void update_many(const OpContext& context, const char* name,
                 std::span<const TableRuns<T, Rule, Weight>> all, std::size_t d) {
  using Args = TableRuns<T, Rule, Weight>;
  const dim3 block = row_block<W>(d), fold_block = row_block<W>(d, kFoldThreads<W>);
  launch_many<Args>(context, name, all, block, &update_many_short_runs_kernel<W, T, Rule, Weight>,
                    [&](const Args& a) { return grid_for(a.max_runs, block.y); });
  launch_many<Args>(context, name, all, block, &sum_many_chunks_kernel<W, T, Rule, Weight>,
                    [&](const Args& a) { return grid_for(a.max_chunks, block.y); });
  launch_many<Args>(context, name, all, fold_block,
                    &update_many_long_runs_kernel<W, T, Rule, Weight>,
                    [&](const Args& a) { return grid_for(a.max_long_runs, fold_block.y); });
}

}  // namespace hugectr::cuda
