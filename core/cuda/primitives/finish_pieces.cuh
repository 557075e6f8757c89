// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/group_sum.cuh"

/// The end of sums down columns whose pieces lie in scratch, one a block.
namespace hugectr::cuda {

inline constexpr unsigned kPieceThreads = 32;

// Thread y takes every 32nd piece, sixteen of them under way at once; then a warp adds those of one
// column in a tree.
template <class T, class Finish>
__global__ void __launch_bounds__(32 * kPieceThreads)
    finish_pieces_kernel(const T* partial, std::size_t pieces, std::size_t columns, Finish finish) {
  constexpr unsigned kAtOnce = 16;
  __shared__ double sums[kPieceThreads][33];
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * 32;
  const std::size_t column = first + threadIdx.x;
  double sum = 0.0;
  if (column < columns) {
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
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const double all = group_sum<32>(sums[threadIdx.x][threadIdx.y]);
  if (threadIdx.x == 0 && first + threadIdx.y < columns) finish(first + threadIdx.y, all);
}

/// finish(column, sum over the pieces, in double) for every column of (pieces, columns) numbers.
template <class T, class Finish>
void finish_pieces(const OpContext& context, const char* name, const T* partial, std::size_t pieces,
                   std::size_t columns, const Finish& finish) {
  launch(context, name, dim3(static_cast<unsigned>((columns + 31) / 32)), dim3(32, kPieceThreads),
         0, &finish_pieces_kernel<T, Finish>, partial, pieces, columns, finish);
}

}  // namespace hugectr::cuda
