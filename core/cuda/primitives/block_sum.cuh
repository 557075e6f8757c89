// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cuda/primitives/group_sum.cuh"

/// Sums over a block in a fixed order.
namespace hugectr::cuda {

/// The sum over all threads of a one-dimensional block, in thread 0. Called by all of them; calls
/// that follow one another need a barrier between them.
template <int kThreads>
__device__ double block_sum(double value) {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
  __shared__ double of_warp[32];
  value = group_sum<32>(value);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x < 32)
    value = group_sum<32>(threadIdx.x < kThreads / 32 ? of_warp[threadIdx.x] : 0.0);
  return value;
}

}  // namespace hugectr::cuda
