// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "core/cuda/primitives/rows.cuh"

/// How kernels over rows of an embedding table are laid out: a block is (x, y) threads; x walks
/// over the columns of a row, one Pack<float, W> a thread, and each y is a worker with a row of its
/// own.
namespace hugectr::cuda {

/// Threads that row_block() aims at, and the most it gives: one row alone may need 1024 when W = 1.
inline constexpr unsigned kRowThreads = 256;
template <int W>
inline constexpr unsigned kMaxRowThreads = W == 4 ? kRowThreads : 1024;

/// Calls f(std::integral_constant<int, W>): 4 when rows of d floats that start at these pointers
/// and lie `row_stride` apart can be read 16 bytes at a time, else 1. Null pointers fit.
template <class F>
void with_row_width(std::size_t d, std::size_t row_stride,
                    std::initializer_list<const float*> pointers, const F& f) {
  const bool fits = d % 4 == 0 && std::all_of(pointers.begin(), pointers.end(),
                                              [&](auto* p) { return packs_fit(p, row_stride, 4); });
  return fits ? f(std::integral_constant<int, 4>{}) : f(std::integral_constant<int, 1>{});
}

/// A block of about `threads` threads over rows of d floats; d is 1 to 1024.
template <int W>
dim3 row_block(std::size_t d, unsigned threads = kRowThreads) {
  const auto packs = static_cast<unsigned>(d / W);
  return dim3(packs, std::max(1u, threads / packs));
}

/// Number of this thread's worker among all of the grid, and how many there are.
__device__ inline std::size_t row_worker() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}
__device__ inline std::size_t row_worker_count() {
  return static_cast<std::size_t>(gridDim.x) * blockDim.y;
}

/// sum += x, and sum += scale * x.
template <int W>
__device__ void add_pack(Pack<float, W>& sum, const Pack<float, W>& x) {
#pragma unroll
  for (int k = 0; k < W; ++k) sum.v[k] += x.v[k];
}
template <int W>
__device__ void add_pack(Pack<float, W>& sum, const Pack<float, W>& x, float scale) {
#pragma unroll
  for (int k = 0; k < W; ++k) sum.v[k] = fmaf(scale, x.v[k], sum.v[k]);
}

}  // namespace hugectr::cuda
