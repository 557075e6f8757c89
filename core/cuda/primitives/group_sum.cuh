// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cuda/device/launch.cuh"

/// Sums of groups of neighbouring threads; always in the same order.
namespace hugectr::cuda {

/// Sum over each aligned group of Width lanes, in every lane of it. All lanes of the warp call it.
template <int Width, class T>
__device__ T group_sum(T value) {
#pragma unroll
  for (int step = Width / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
  }
  return value;
}

template <int Width, class Term, class Store>
__global__ void sum_each_kernel(std::size_t outputs, std::size_t count, Term term, Store store) {
  const std::size_t groups = blockDim.x / Width;
  const std::size_t step = gridDim.x * groups;
  const unsigned lane = threadIdx.x % Width;
  // The bound is that of the block, so that whole warps reach the shuffles.
  for (std::size_t first = blockIdx.x * groups; first < outputs; first += step) {
    const std::size_t output = first + threadIdx.x / Width;
    float sum = 0.0f;
    if (output < outputs) {
#pragma unroll 4
      for (std::size_t j = lane; j < count; j += Width) sum += term(output, j);
    }
    sum = group_sum<Width>(sum);
    if (output < outputs && lane == 0) store(output, sum);
  }
}

/// store(o, sum of term(o, j) over j < count) for o < outputs, a group of lanes each: neighbouring
/// lanes take neighbouring j. Both are structs with a const __device__ operator().
template <class Term, class Store>
void sum_each(const OpContext& context, const char* name, std::size_t outputs, std::size_t count,
              const Term& term, const Store& store) {
  if (outputs == 0) return;
  constexpr unsigned kBlock = 256;
  const auto run = [&]<int Width>() {
    launch(context, name, dim3(grid_for(outputs, kBlock / Width)), dim3(kBlock), 0,
           &sum_each_kernel<Width, Term, Store>, outputs, count, term, store);
  };
  if (count <= 1) return run.template operator()<1>();
  if (count <= 2) return run.template operator()<2>();
  if (count <= 4) return run.template operator()<4>();
  if (count <= 16) return run.template operator()<8>();
  run.template operator()<32>();
}

}  // namespace hugectr::cuda
