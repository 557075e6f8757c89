// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cuda/device/launch.cuh"

/// Loops over the keys of buckets (CSR): a few neighbouring threads share a bucket.
namespace hugectr::cuda {

/// Buckets dealt out to groups of 2^log_lanes threads.
struct BucketLanes {
  static constexpr unsigned kThreads = 256;
  std::size_t buckets = 0;
  unsigned log_lanes = 0;

  /// As many lanes as a bucket has keys on average, at most a warp.
  BucketLanes(std::size_t bucket_count, std::size_t keys) : buckets(bucket_count) {
    while (log_lanes < 5 && (bucket_count << log_lanes) < keys) ++log_lanes;
  }
  dim3 grid() const { return dim3(grid_for(buckets << log_lanes, kThreads)); }
  dim3 block() const { return dim3(kThreads); }

  /// body(bucket, lane) for the buckets of this thread; lanes() apart are the keys it takes.
  template <class Body>
  __device__ void for_each(const Body& body) const {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t t = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         t < buckets << log_lanes; t += step) {
      body(t >> log_lanes, static_cast<unsigned>(t) & (lanes() - 1));
    }
  }
  __device__ unsigned lanes() const { return 1u << log_lanes; }
};

}  // namespace hugectr::cuda
