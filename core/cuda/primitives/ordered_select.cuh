// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

/// Which of the numbers 0 .. n - 1 are selected, in their order, by two kernels that do so for any
/// number of tables at once: in the first each block counts those of a stretch of numbers, in the
/// second it adds up the counts before its own and knows where the stretch's begin. Nothing waits
/// for other blocks, and the order is the same in every run.
namespace hugectr::cuda {

inline constexpr unsigned kSelectThreads = 256;

/// How the numbers of a table are cut: a block each.
struct Stretches {
  static constexpr std::size_t kTile = 2048;  ///< numbers that a block takes at a time
  static constexpr std::size_t kMost = 1024;  ///< stretches: what a block adds up

  Stretches() = default;
  explicit Stretches(std::size_t numbers) : n(numbers) {
    const std::size_t tiles = std::max<std::size_t>(1, (n + kTile - 1) / kTile);
    length = (tiles + kMost - 1) / kMost * kTile;
    count = static_cast<unsigned>(std::max<std::size_t>(1, (n + length - 1) / length));
  }
  __device__ bool has_block() const { return blockIdx.x < count; }
  __device__ bool is_last() const { return blockIdx.x + 1 == count; }
  __device__ std::size_t begin() const { return blockIdx.x * length; }
  __device__ std::size_t end() const {
    const std::size_t last = begin() + length;
    return last < n ? last : n;
  }

  std::size_t n = 0, length = kTile;
  unsigned count = 1;  ///< of stretches; one where there are no numbers
};

/// Sum over the block, in all threads.
__device__ inline std::uint32_t sum_over_block(std::uint32_t value) {
  __shared__ std::uint32_t of_warp[kSelectThreads / 32];
  const std::uint32_t own = __reduce_add_sync(0xffffffffu, value);
  __syncthreads();  // whoever read the last sum has
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = own;
  __syncthreads();
  std::uint32_t sum = 0;
  for (const std::uint32_t one : of_warp) sum += one;
  return sum;
}

/// First kernel: counts[blockIdx.x] := how many of the block's stretch are selected. selects(i) is
/// asked once.
template <class Selects>
__device__ void count_selected(const Stretches& all, std::uint32_t* counts,
                               const Selects& selects) {
  std::uint32_t count = 0;
  for (std::size_t i = all.begin() + threadIdx.x; i < all.end(); i += kSelectThreads) {
    count += selects(i) ? 1 : 0;
  }
  count = sum_over_block(count);
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

/// Second kernel: emit(i, k) for those of the block's stretch, the k-th of all. selects(i) is asked
/// once and reads nothing that emit() of another number writes. Returns how many are selected here
/// and in the stretches before: of the last stretch, in all.
template <class Selects, class Emit>
__device__ std::uint32_t emit_selected(const Stretches& all, const std::uint32_t* counts,
                                       const Selects& selects, const Emit& emit) {
  constexpr unsigned kWarps = kSelectThreads / 32, kRounds = Stretches::kTile / kSelectThreads;
  __shared__ std::uint32_t of_warp[kWarps];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  std::uint32_t before = 0;
  for (unsigned b = threadIdx.x; b < blockIdx.x; b += kSelectThreads) before += counts[b];
  before = sum_over_block(before);
  for (std::size_t tile = all.begin(); tile < all.end(); tile += Stretches::kTile) {
    // A warp has numbers that follow each other, 32 a round.
    const std::size_t first = tile + warp * (32 * kRounds) + lane;
    std::uint32_t chosen[kRounds], own = 0;
#pragma unroll
    for (unsigned r = 0; r < kRounds; ++r) {
      const std::size_t i = first + 32 * r;
      chosen[r] = __ballot_sync(0xffffffffu, i < all.end() && selects(i));
      own += static_cast<std::uint32_t>(__popc(chosen[r]));
    }
    __syncthreads();  // the last tile's counts have been read
    if (lane == 0) of_warp[warp] = own;
    __syncthreads();
    std::uint32_t at = before;
    for (unsigned w = 0; w < kWarps; ++w) {
      if (w < warp) at += of_warp[w];
      before += of_warp[w];
    }
#pragma unroll
    for (unsigned r = 0; r < kRounds; ++r) {
      const std::uint32_t lower = chosen[r] & ((1u << lane) - 1);
      if (chosen[r] >> lane & 1u) emit(first + 32 * r, at + __popc(lower));
      at += static_cast<std::uint32_t>(__popc(chosen[r]));
    }
  }
  return before;
}

}  // namespace hugectr::cuda
