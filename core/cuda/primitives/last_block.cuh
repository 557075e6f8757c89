// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cuda/device/cuda_stream.hpp"
#include "core/cuda/device/launch.cuh"

/// Sums over blocks in the kernel that makes them: each block lays down its piece, and the last
/// that has done so adds all of them. Which block that is changes nothing: pieces are added in
/// their own order. No block waits for another, so any number of them may be on their way.
namespace hugectr::cuda {

/// The words for last_block() of the ops of this stream, `count` of them.
inline unsigned* tickets_of(const OpContext& context, std::size_t count) {
  return cuda_stream(*context.stream).scratch().tickets(count);
}

/// Whether this is the last of `blocks` blocks to come here, in all of its threads; it sees what
/// all of them have stored before. `ticket` is 0 before the kernel and after it.
__device__ inline bool last_block(unsigned* ticket, unsigned blocks) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    is_last = atomicInc(ticket, blocks - 1) == blocks - 1;
  }
  __syncthreads();
  if (is_last) __threadfence();
  return is_last;
}

/// add(column, sum over the pieces, in double) for every column of (pieces, columns) numbers that
/// other blocks have written, by the `threads` threads of a block, not fewer than columns; `room`:
/// as many doubles of shared memory, which nobody uses any more.
template <class T, class Add>
__device__ void add_pieces(const T* from, unsigned pieces, unsigned columns, unsigned thread,
                           unsigned threads, double* room, const Add& add) {
  constexpr unsigned kAtOnce = 128 / sizeof(T);  // under way
  const unsigned lanes = threads / columns, lane = thread / columns;
  double sum = 0.0;
  if (lane < lanes) {
    const T* const mine = from + thread % columns;
    for (unsigned begin = lane; begin < pieces; begin += kAtOnce * lanes) {
      T some[kAtOnce];
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const unsigned piece = begin + i * lanes;
        some[i] = piece < pieces ? __ldcg(mine + std::size_t{piece} * columns) : T{};
      }
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) sum += static_cast<double>(some[i]);
    }
  }
  room[thread] = sum;
  __syncthreads();
  if (thread >= columns) return;
  sum = 0.0;
  for (unsigned l = 0; l < lanes; ++l) sum += room[l * columns + thread];
  add(thread, sum);
}

}  // namespace hugectr::cuda
