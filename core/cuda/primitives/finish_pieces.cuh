// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/group_sum.cuh"

/// The end of sums down columns whose pieces lie in scratch, one a block.
namespace hugectr::cuda {

// Columns of a block: a sector of memory of them, so that many multiprocessors read the pieces.
inline constexpr unsigned kPieceColumns = 8, kPieceThreads = 128;

// Thread y takes every 128th piece, four of them under way at once; then a warp adds those of its
// four threads of a column, and at last one warp the 32 numbers of a column, in trees.
template <class T, class Finish>
__global__ void __launch_bounds__(kPieceColumns* kPieceThreads)
    finish_pieces_kernel(const T* partial, std::size_t pieces, std::size_t columns, Finish finish) {
  constexpr unsigned kAtOnce = 4, kWarps = kPieceColumns * kPieceThreads / 32;
  static_assert(kWarps == 32);
  __shared__ double sums[kWarps][kPieceColumns + 1];
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * kPieceColumns;
  const std::size_t column = first + threadIdx.x;
  const unsigned thread = threadIdx.y * kPieceColumns + threadIdx.x;
  const unsigned warp = thread / 32, lane = thread % 32;
  double sum = 0.0;
  if (column < columns) {
#pragma unroll 1  // mostly once
    for (std::size_t begin = threadIdx.y; begin < pieces; begin += kAtOnce * kPieceThreads) {
      T some[kAtOnce];
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const std::size_t piece = begin + i * kPieceThreads;
        some[i] = piece < pieces ? partial[piece * columns + column] : T{};
      }
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) sum += static_cast<double>(some[i]);
    }
  }
#pragma unroll
  for (unsigned step = kPieceColumns; step < 32; step *= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
  }
  if (lane < kPieceColumns) sums[warp][lane] = sum;
  __syncthreads();
  if (warp >= kPieceColumns) return;
  const double all = group_sum<32>(sums[lane][warp]);
  if (lane == 0 && first + warp < columns) finish(first + warp, all);
}

/// finish(column, sum over the pieces, in double) for every column of (pieces, columns) numbers.
template <class T, class Finish>
void finish_pieces(const OpContext& context, const char* name, const T* partial, std::size_t pieces,
                   std::size_t columns, const Finish& finish) {
  launch(context, name, dim3(static_cast<unsigned>((columns + kPieceColumns - 1) / kPieceColumns)),
         dim3(kPieceColumns, kPieceThreads), 0, &finish_pieces_kernel<T, Finish>, partial, pieces,
         columns, finish);
}

}  // namespace hugectr::cuda
