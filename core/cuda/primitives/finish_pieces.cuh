// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cuda/device/launch.cuh"

/// The end of sums down columns whose pieces lie in scratch, one a block.
namespace hugectr::cuda {

inline constexpr unsigned kPieceThreads = 32;

// Thread y takes every 32nd piece, then they are added in order.
template <class T, class Finish>
__global__ void __launch_bounds__(32 * kPieceThreads)
    finish_pieces_kernel(const T* partial, std::size_t pieces, std::size_t columns, Finish finish) {
  __shared__ double sums[kPieceThreads][33];
  const std::size_t column = static_cast<std::size_t>(blockIdx.x) * 32 + threadIdx.x;
  double sum = 0.0;
  if (column < columns) {
#pragma unroll 8
    for (std::size_t piece = threadIdx.y; piece < pieces; piece += kPieceThreads) {
      sum += static_cast<double>(partial[piece * columns + column]);
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
#pragma unroll
  for (unsigned y = 1; y < kPieceThreads; ++y) sum += sums[y][threadIdx.x];
  finish(column, sum);
}

/// finish(column, sum over the pieces, in double) for every column of (pieces, columns) numbers.
template <class T, class Finish>
void finish_pieces(const OpContext& context, const char* name, const T* partial, std::size_t pieces,
                   std::size_t columns, const Finish& finish) {
  launch(context, name, dim3(static_cast<unsigned>((columns + 31) / 32)), dim3(32, kPieceThreads),
         0, &finish_pieces_kernel<T, Finish>, partial, pieces, columns, finish);
}

}  // namespace hugectr::cuda
