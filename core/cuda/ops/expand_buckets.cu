// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/expand_buckets.hpp"
#include "core/cuda/primitives/bucket_lanes.cuh"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

struct Expand {
  BucketLanes lanes;
  const std::uint32_t* offsets;
  std::uint32_t* buckets;

  explicit Expand(const ExpandBuckets& op)
      : lanes(op.row_offsets.size() - 1, op.buckets.size()),
        offsets(op.row_offsets.ptr<std::uint32_t>()),
        buckets(op.buckets.ptr<std::uint32_t>()) {}
};

// Moves 4 bytes a bucket in and 4 bytes a key out.
__device__ void expand(const BucketLanes& lanes, const std::uint32_t* __restrict__ offsets,
                       std::uint32_t* __restrict__ buckets) {
  lanes.for_each([&](std::size_t bucket, unsigned lane) {
    const std::size_t end = offsets[bucket + 1];
    for (std::size_t i = offsets[bucket] + std::size_t{lane}; i < end; i += lanes.lanes()) {
      buckets[i] = static_cast<std::uint32_t>(bucket);
    }
  });
}

__global__ void expand_buckets_kernel(Expand a) { expand(a.lanes, a.offsets, a.buckets); }
__global__ void expand_many_kernel(const __grid_constant__ Many<Expand> many) {
  const Expand& a = many.mine();
  expand(a.lanes, a.offsets, a.buckets);
}

void expand_buckets(const OpContext& context, const ExpandBuckets& op) {
  const Expand args(op);
  launch(context, ExpandBuckets::kName, args.lanes.grid(), args.lanes.block(), 0,
         &expand_buckets_kernel, args);
}

void expand_many(const OpContext& context, const Several<ExpandBuckets>& several) {
  const std::vector<Expand> all(several.ops.begin(), several.ops.end());
  launch_many<Expand>(context, ExpandBuckets::kSeveralName, all, dim3(BucketLanes::kThreads),
                      &expand_many_kernel, [](const Expand& a) { return a.lanes.grid().x; });
}

const OpRegistration<ExpandBuckets> expand_buckets_cuda{DeviceType::Cuda, &expand_buckets};
const SeveralRegistration<ExpandBuckets> several_expand_buckets_cuda{DeviceType::Cuda,
                                                                     &expand_many};

}  // namespace
}  // namespace hugectr::cuda
