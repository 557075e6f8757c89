// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>

#include "core/cuda/device/scratch.hpp"
#include "core/cuda/primitives/batch_loops.cuh"
#include "core/cuda/primitives/last_block.cuh"

/// Sums down the columns of batch-major tensors, in one kernel: threads, then blocks, then the last
/// block adds what the others have left. A Body is as in batch_loops.cuh, and has
///   kSums, kOfRows   sums of a column; whether (1) or not (0) there is one of the rows behind them
///   kFew             rows that are added in float32 before they go into double; 1: none
///   Piece            what a block's sums are left as: float or double
///   add(Row, ColumnValues, sums[kSums V + kOfRows])   sums of float where kFew > 1, else of double
namespace hugectr::cuda {

inline constexpr unsigned kSumThreads = 512;

/// A block's shared memory: rows under way, then a double for every sum of every thread, then one
/// more a thread.
template <int V, class Body>
struct SumRoom {
  static constexpr unsigned kSums = Body::kSums * V + Body::kOfRows;
  static constexpr unsigned kApart =
      kSumThreads + 8;  // sums lie in other banks than their neighbours
  static constexpr std::size_t kStages = BatchStages<V, Body>::bytes(kSumThreads);
  static constexpr std::size_t kBytes =
      kStages + (std::size_t{kSums} * kApart + kSumThreads) * sizeof(double);
  static_assert(kSums * kBatchWidth <= kSumThreads, "a thread a sum of the block");
};

/// The sums of a thread over its rows: totals[s * kApart + thread].
template <int V, class Body>
__device__ void add_own_rows(const BatchRows<V>& mine, const Body& body, std::size_t n,
                             unsigned thread, double* totals) {
  constexpr int kSums = SumRoom<V, Body>::kSums;
  const auto total = [&](int s) -> double& {
    return totals[static_cast<unsigned>(s) * SumRoom<V, Body>::kApart + thread];
  };
  const auto start = [&] { return column_values<V>(body, n); };
  if constexpr (Body::kFew == 1) {
    double sums[kSums] = {};
    mine.run(body, start, [&](const auto& row, std::size_t, unsigned, const auto& columns) {
      body.add(row, columns, sums);
    });
#pragma unroll
    for (int s = 0; s < kSums; ++s) total(s) = sums[s];
  } else {
    // Doubles in registers would leave room for fewer rows under way.
    float few[kSums] = {};
    const auto move = [&] {
#pragma unroll
      for (int s = 0; s < kSums; ++s) {
        total(s) += static_cast<double>(few[s]);
        few[s] = 0.0f;
      }
    };
#pragma unroll
    for (int s = 0; s < kSums; ++s) total(s) = 0.0;
    mine.run(body, start, [&](const auto& row, std::size_t, unsigned item, const auto& columns) {
      body.add(row, columns, few);
      if (item % Body::kFew == Body::kFew - 1) move();
    });
    move();
  }
}

/// Piece blockIdx.y of the blocks of these columns: sum s of their column pack x is s * width + x.
template <int V, class Body, class Finish>
__global__ void __launch_bounds__(kSumThreads, 1)
    column_sums_kernel(std::size_t rows, std::size_t n, Body body, typename Body::Piece* pieces,
                       unsigned* tickets, Finish finish) {
  using Room = SumRoom<V, Body>;
  extern __shared__ uint4 slots[];
  auto* const totals = reinterpret_cast<double*>(slots + Room::kStages / sizeof(uint4));
  double* const room = totals + Room::kSums * Room::kApart;
  const unsigned width = blockDim.x, thread = threadIdx.y * width + threadIdx.x;
  const unsigned sums = Room::kSums * width, lanes = kSumThreads / sums;

  const BatchRows<V> mine(rows, n);
  add_own_rows<V>(mine, body, n, thread, totals);
  __syncthreads();
  double sum = 0.0;
  if (thread / sums < lanes) {
    const double* const of = totals + thread % sums / width * Room::kApart + thread % width;
    for (unsigned y = thread / sums; y < blockDim.y; y += lanes) sum += of[y * width];
  }
  room[thread] = sum;
  __syncthreads();
  typename Body::Piece* const all =
      pieces + static_cast<std::size_t>(blockIdx.x) * gridDim.y * sums;
  if (thread < sums) {
    sum = 0.0;
    for (unsigned lane = 0; lane < lanes; ++lane) sum += room[lane * sums + thread];
    all[std::size_t{blockIdx.y} * sums + thread] = static_cast<typename Body::Piece>(sum);
  }
  if (!last_block(tickets + blockIdx.x, gridDim.y)) return;
  add_pieces(all, gridDim.y, sums, thread, kSumThreads, room, [&](unsigned which, double value) {
    const std::size_t s = which / width, pack = std::size_t{blockIdx.x} * width + which % width;
    const std::size_t column = pack * V + s % V;
    if (s == Body::kSums * V) {
      if (pack == 0) finish(Body::kSums * n, value);
    } else if (column < n) {
      finish(s / V * n + column, value);
    }
  });
}

/// finish(s n + column, sum) for the sums of every column, finish(kSums n, sum) for that of the
/// rows. The order of the terms depends on the shapes and on the GPU's size alone.
template <int V, class Body, class Finish>
void sum_columns(const OpContext& context, const char* name, std::size_t rows, std::size_t n,
                 const Body& body, const Finish& finish) {
  using Room = SumRoom<V, Body>;
  const auto kernel = &column_sums_kernel<V, Body, Finish>;
  static const unsigned per_processor =
      resident_blocks(kernel, static_cast<int>(kSumThreads), Room::kBytes);
  // Without a row the sums are zeros, which somebody must write.
  const BatchShape shape =
      BatchShape::of<V>(std::max<std::size_t>(1, rows), n, per_processor, kSumThreads);
  const std::size_t pieces = std::size_t{shape.grid.x} * shape.grid.y;
  const Scratch scratch(context,
                        pieces * Room::kSums * shape.block.x * sizeof(typename Body::Piece));
  launch(context, name, shape.grid, shape.block, Room::kBytes, kernel, rows, n, body,
         static_cast<typename Body::Piece*>(scratch.data()), tickets_of(context, shape.grid.x),
         finish);
}

}  // namespace hugectr::cuda
