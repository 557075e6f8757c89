// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/cuda/primitives/real.cuh"
#include "core/cuda/primitives/rows.cuh"

/// How kernels over rows of an embedding table are laid out: a block is (x, y) threads; x walks
/// over the columns of a row, W of them a thread, and each y is a worker with a row of its own.
/// Tables are float32, so W = 4 is a 16-byte access; vectors in 16 bits then take 8 bytes a thread,
/// which neighbouring threads make whole lines of. Where nothing but vectors in 16 bits is moved,
/// W = 8 makes 16-byte accesses of them too.
namespace hugectr::cuda {

/// Threads that row_block() aims at. With W = 8 half of them hold as many rows, and a block keeps
/// its place until the slowest of its rows is done.
template <int W>
inline constexpr unsigned kRowThreads = W == 8 ? 128 : 256;
/// The most it gives: one row alone may need 1024 when W = 1.
template <int W>
inline constexpr unsigned kMaxRowThreads = W == 1 ? 1024 : kRowThreads<W>;

/// The largest W for vectors of all these types.
template <class... T>
inline constexpr int kWidest = 16 / std::max({sizeof(T)...});

/// Calls f(std::integral_constant<int, W>): the largest of kMost, 4 and 1 for which fits(W) holds;
/// 1 needs not.
template <int kMost, class Fits, class F>
void with_row_width(const Fits& fits, const F& f) {
  if constexpr (kMost > 4) {
    if (fits(kMost)) return f(std::integral_constant<int, kMost>{});
  }
  return fits(4) ? f(std::integral_constant<int, 4>{}) : f(std::integral_constant<int, 1>{});
}

/// Whether rows of d numbers that start at all of these places, rows and places each a multiple of
/// w numbers apart, can be read w at a time. Null pointers fit.
template <class... T>
bool row_packs_fit(std::size_t w, std::size_t d, std::size_t row_stride, const T*... places) {
  return d % w == 0 && (packs_fit(places, row_stride, w) && ...);
}

/// A block of about `threads` threads over rows of d numbers; d is 1 to 1024.
template <int W>
dim3 row_block(std::size_t d, unsigned threads = kRowThreads<W>) {
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
