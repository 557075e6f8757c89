// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/bucket_scale.hpp"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

struct Scale {
  const std::uint32_t* offsets;
  float* scale;
  std::size_t buckets;

  explicit Scale(const BucketScale& op)
      : offsets(op.row_offsets.ptr<std::uint32_t>()),
        scale(op.scale.ptr<float>()),
        buckets(op.scale.size()) {}
  unsigned blocks() const { return grid_for(buckets, kThreads); }
};

__device__ void find_scale(const std::uint32_t* __restrict__ offsets, float* __restrict__ scale,
                           std::size_t buckets) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t b = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; b < buckets;
       b += step) {
    const std::uint32_t keys = offsets[b + 1] - offsets[b];
    scale[b] = 1.0f / static_cast<float>(keys > 1 ? keys : 1);
  }
}

__global__ void bucket_scale_kernel(Scale a) { find_scale(a.offsets, a.scale, a.buckets); }
__global__ void scale_many_kernel(const __grid_constant__ Many<Scale> many) {
  const Scale& a = many.mine();
  find_scale(a.offsets, a.scale, a.buckets);
}

void bucket_scale(const OpContext& context, const BucketScale& op) {
  const Scale args(op);
  launch(context, BucketScale::kName, dim3(args.blocks()), dim3(kThreads), 0, &bucket_scale_kernel,
         args);
}

void scale_many(const OpContext& context, const Several<BucketScale>& several) {
  const std::vector<Scale> all(several.ops.begin(), several.ops.end());
  launch_many<Scale>(context, BucketScale::kSeveralName, all, dim3(kThreads), &scale_many_kernel,
                     [](const Scale& a) { return a.blocks(); });
}

const OpRegistration<BucketScale> bucket_scale_cuda{DeviceType::Cuda, &bucket_scale};
const SeveralRegistration<BucketScale> several_bucket_scale_cuda{DeviceType::Cuda, &scale_many};

}  // namespace
}  // namespace hugectr::cuda
