// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/ops/slot_lengths.hpp"
#include "core/cuda/device/launch.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

__global__ void slot_lengths_kernel(const std::uint32_t* __restrict__ offsets,
                                    float* __restrict__ lengths, std::size_t size,
                                    std::size_t slots, std::size_t stride) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t j = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; j < size;
       j += step) {
    const std::size_t i = j / slots;
    lengths[i * stride + (j - i * slots)] = static_cast<float>(offsets[j + 1] - offsets[j]);
  }
}

void slot_lengths(const OpContext& context, const SlotLengths& op) {
  const std::size_t size = op.lengths.size();
  launch(context, SlotLengths::kName, dim3(grid_for(size, kThreads)), dim3(kThreads), 0,
         &slot_lengths_kernel, op.row_offsets.ptr<std::uint32_t>() + op.first_row,
         op.lengths.ptr<float>(), size, op.lengths.shape[1], op.lengths.row_stride);
}

const OpRegistration<SlotLengths> slot_lengths_cuda{DeviceType::Cuda, &slot_lengths};

}  // namespace
}  // namespace hugectr::cuda
