// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/ops/bucket_scale.hpp"
#include "core/cuda/device/launch.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

__global__ void bucket_scale_kernel(const std::uint32_t* __restrict__ offsets,
                                    float* __restrict__ scale, std::size_t buckets) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t b = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; b < buckets;
       b += step) {
    const std::uint32_t keys = offsets[b + 1] - offsets[b];
    scale[b] = 1.0f / static_cast<float>(keys > 1 ? keys : 1);
  }
}

void bucket_scale(const OpContext& context, const BucketScale& op) {
  launch(context, BucketScale::kName, dim3(grid_for(op.scale.size(), kThreads)), dim3(kThreads), 0,
         &bucket_scale_kernel, op.row_offsets.ptr<std::uint32_t>(), op.scale.ptr<float>(),
         op.scale.size());
}

const OpRegistration<BucketScale> bucket_scale_cuda{DeviceType::Cuda, &bucket_scale};

}  // namespace
}  // namespace hugectr::cuda
