// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <type_traits>

#include "core/cpp/ops/embedding_update.hpp"
#include "core/cuda/device/scratch_parts.hpp"
#include "core/cuda/ops/embedding_update.cuh"
#include "core/cuda/primitives/row_updates.cuh"

/// Sweeps over rows that are kept as Weight, float or BFloat16: compiled in a file each.
namespace hugectr::cuda {

static __global__ void mark_touched_kernel(Runs runs, std::uint32_t* touched) {
  const std::size_t count = runs.size();
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t run = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       run < count; run += step) {
    const std::uint32_t row = runs.rows[run];
    atomicOr(touched + row / 32, 1u << row % 32);
  }
}

// What rows of a sweep are rounded by.
template <class Weight>
struct SweptRows {
  RowIdentities rows;
  const std::int64_t* step;
  __device__ RowStream<Weight> stream(std::size_t row) const { return {rows.stream(row, *step)}; }
};
template <>
struct SweptRows<float> {
  __device__ RowStream<float> stream(std::size_t) const { return {}; }
};

// Every row whose bit is not set. Moves (8 + 8 kStates) d bytes a row.
template <int W, class Rule, class Weight>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    sweep_kernel(const std::uint32_t* __restrict__ touched, std::size_t rows, Table<Weight> table,
                 Rule rule, const float* unscale, SweptRows<Weight> swept) {
  if (value_of(unscale) == 0.0f) return;  // a skipped step
  const unsigned column = threadIdx.x * W;
  for (std::size_t row = row_worker(); row < rows; row += row_worker_count()) {
    if (touched[row / 32] >> row % 32 & 1) continue;
    const std::size_t at = row * table.d + column;
    RowElements<W, Weight> elements = load_row<W, Rule>(table, at);
    elements.stream = swept.stream(row);
    update_row(table, at, column, elements, rule, 0, Pack<float, W>{}, 0.0f);
  }
}

template <class Weight>
SweptRows<Weight> swept_rows(const EmbeddingSweep& op) {
  if constexpr (std::is_same_v<Weight, float>) {
    return {};
  } else {
    RowIdentities rows(op.rounding);
    rows.numbers = nullptr;
    return {rows, op.step.ptr<std::int64_t>()};
  }
}

template <class Weight, class Rule>
void sweep(const OpContext& context, const EmbeddingSweep& op, const Rule& rule) {
  const std::size_t rows = op.weights.rows(), d = op.weights.shape[1];
  ScratchParts parts;
  const std::size_t rate_at = parts.add<float>(1);
  const std::size_t words = (rows + 31) / 32;
  const std::size_t touched_at = parts.add<std::uint32_t>(words);
  const Scratch scratch(context, parts.bytes());
  auto* touched = part<std::uint32_t>(scratch, touched_at);
  const Runs runs{op.unique_rows.ptr<std::uint32_t>(), nullptr, op.run_count.ptr<std::int64_t>()};
  Table<Weight> table = table_of<Weight>(op);
  const SweptRows<Weight> swept = swept_rows<Weight>(op);
  if constexpr (!std::is_same_v<Weight, float>) {
    table.first_column = static_cast<unsigned>(op.rounding.first_column);
  }

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
           &sweep_kernel<kWidth, DeviceRowRule<Rule>, Weight>, touched, rows, table,
           DeviceRowRule<Rule>{rate, rule}, unscale_of(op.unscale), swept);
  });
}

}  // namespace hugectr::cuda
