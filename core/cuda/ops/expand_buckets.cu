// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/ops/expand_buckets.hpp"
#include "core/cuda/primitives/bucket_lanes.cuh"

namespace hugectr::cuda {
namespace {

// Moves 4 bytes a bucket in and 4 bytes a key out.
__global__ void expand_buckets_kernel(BucketLanes lanes, const std::uint32_t* __restrict__ offsets,
                                      std::uint32_t* __restrict__ buckets) {
  lanes.for_each([&](std::size_t bucket, unsigned lane) {
    const std::size_t end = offsets[bucket + 1];
    for (std::size_t i = offsets[bucket] + std::size_t{lane}; i < end; i += lanes.lanes()) {
      buckets[i] = static_cast<std::uint32_t>(bucket);
    }
  });
}

void expand_buckets(const OpContext& context, const ExpandBuckets& op) {
  const BucketLanes lanes(op.row_offsets.size() - 1, op.buckets.size());
  launch(context, ExpandBuckets::kName, lanes.grid(), lanes.block(), 0, &expand_buckets_kernel,
         lanes, op.row_offsets.ptr<std::uint32_t>(), op.buckets.ptr<std::uint32_t>());
}

const OpRegistration<ExpandBuckets> expand_buckets_cuda{DeviceType::Cuda, &expand_buckets};

}  // namespace
}  // namespace hugectr::cuda
