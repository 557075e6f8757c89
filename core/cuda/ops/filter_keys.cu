// SPDX-License-Identifier: Apache-2.0
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <bit>
#include <cstdint>
#include <cub/device/device_scan.cuh>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/filter_keys.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/primitives/bucket_lanes.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

// sums[i] := count(0) + ... + count(i - 1) for i < n.
template <class Count>
void exclusive_sum(const OpContext& context, const Count& count, std::uint32_t* sums,
                   std::size_t n) {
  const auto counts =
      thrust::make_transform_iterator(thrust::make_counting_iterator<std::uint64_t>(0), count);
  std::size_t bytes = 0;
  HCTR_TRY(cub::DeviceScan::ExclusiveSum(nullptr, bytes, counts, sums,
                                         static_cast<std::uint64_t>(n), native_stream(context)));
  const Scratch temporary(context, bytes);
  HCTR_TRY(cub::DeviceScan::ExclusiveSum(temporary.data(), bytes, counts, sums,
                                         static_cast<std::uint64_t>(n), native_stream(context)));
}

// 1 for a key that the device owns; the one behind the last counts nothing.
template <class Key>
struct OwnsKey {
  const Key* keys;
  std::uint64_t n, devices, rank;
  bool mask;                  // a mask costs a fraction of a 64-bit division
  const std::uint32_t* held;  // or null
  bool keep_held;
  __device__ std::uint32_t operator()(std::uint64_t i) const {
    if (i >= n) return 0;
    if (held && (held[i] != kNoRow) != keep_held) return 0;
    const std::uint64_t key = widen_key(keys[i]);
    return (mask ? key & (devices - 1) : owner_of_key(key, devices)) == rank;
  }
};

// before[i] = own keys among the first i: where key i goes when it is one.
template <class Key>
__global__ void gather_own_kernel(const Key* __restrict__ keys,
                                  const std::uint32_t* __restrict__ offsets,
                                  const std::uint32_t* __restrict__ before, Key* __restrict__ own,
                                  std::uint32_t* __restrict__ own_offsets,
                                  std::uint32_t* __restrict__ places, std::size_t buckets) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t thread = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::size_t begin = offsets[0], end = offsets[buckets];
  const std::uint32_t first = before[begin];
  for (std::size_t i = begin + thread; i < end; i += step) {
    const std::uint32_t at = before[i];
    if (before[i + 1] == at) continue;
    own[at - first] = keys[i];
    if (places) places[at - first] = static_cast<std::uint32_t>(i);
  }
  for (std::size_t b = thread; b <= buckets; b += step) own_offsets[b] = before[offsets[b]] - first;
}

template <class Key>
void filter_by_key(const OpContext& context, const FilterKeys& op) {
  const std::size_t n = op.keys.size(), buckets = op.row_offsets.size() - 1;
  const auto devices = static_cast<std::uint64_t>(op.device_count);
  const Scratch scratch(context, (n + 1) * sizeof(std::uint32_t));
  auto* before = static_cast<std::uint32_t*>(scratch.data());
  exclusive_sum(
      context,
      OwnsKey<Key>{op.keys.ptr<Key>(), n, devices, static_cast<std::uint64_t>(op.rank),
                   std::has_single_bit(devices),
                   op.held.empty() ? nullptr : op.held.ptr<std::uint32_t>(), op.keep_held},
      before, n + 1);
  launch(context, FilterKeys::kName, dim3(grid_for(std::max(n, buckets + 1), kThreads)),
         dim3(kThreads), 0, &gather_own_kernel<Key>, op.keys.ptr<Key>(),
         op.row_offsets.ptr<std::uint32_t>(), before, op.own_keys.ptr<Key>(),
         op.own_row_offsets.ptr<std::uint32_t>(), op.places(), buckets);
}

// Buckets of the device's own slots in the batch.
struct OwnBuckets {
  const std::uint32_t* offsets;
  std::size_t count, slots, own_slots, devices, rank;

  __device__ std::size_t source(std::size_t own_bucket) const {
    return own_bucket / own_slots * slots + own_bucket % own_slots * devices + rank;
  }
  // Keys of an own bucket; the one behind the last has none.
  __device__ std::uint32_t operator()(std::uint64_t own_bucket) const {
    if (own_bucket >= count) return 0;
    const std::size_t bucket = source(own_bucket);
    return offsets[bucket + 1] - offsets[bucket];
  }
};

template <class Key>
__global__ void copy_own_buckets_kernel(BucketLanes lanes, OwnBuckets buckets,
                                        const Key* __restrict__ keys,
                                        const std::uint32_t* __restrict__ own_offsets,
                                        Key* __restrict__ own, std::uint32_t* __restrict__ places) {
  lanes.for_each([&](std::size_t own_bucket, unsigned lane) {
    const std::uint32_t from = buckets.offsets[buckets.source(own_bucket)];
    const std::size_t begin = own_offsets[own_bucket];
    const std::size_t count = own_offsets[own_bucket + 1] - begin;
    for (std::size_t i = lane; i < count; i += lanes.lanes()) {
      own[begin + i] = keys[from + i];
      if (places) places[begin + i] = from + static_cast<std::uint32_t>(i);
    }
  });
}

template <class Key>
void filter_by_slot(const OpContext& context, const FilterKeys& op) {
  const auto slots = static_cast<std::size_t>(op.slot_num);
  const auto rank = static_cast<std::size_t>(op.rank);
  const auto devices = static_cast<std::size_t>(op.device_count);
  auto* own_offsets = op.own_row_offsets.ptr<std::uint32_t>();
  const OwnBuckets buckets{op.row_offsets.ptr<std::uint32_t>(),
                           op.own_row_offsets.size() - 1,
                           slots,
                           slots_of_device(slots, rank, devices),
                           devices,
                           rank};
  exclusive_sum(context, buckets, own_offsets, buckets.count + 1);
  // About one in `devices` of the keys is copied.
  const BucketLanes lanes(buckets.count, op.keys.size() / devices);
  launch(context, FilterKeys::kName, lanes.grid(), lanes.block(), 0, &copy_own_buckets_kernel<Key>,
         lanes, buckets, op.keys.ptr<Key>(), own_offsets, op.own_keys.ptr<Key>(), op.places());
}

void filter_keys(const OpContext& context, const FilterKeys& op) {
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    op.by_slot ? filter_by_slot<Key>(context, op) : filter_by_key<Key>(context, op);
  });
}

const OpRegistration<FilterKeys> filter_keys_cuda{DeviceType::Cuda, &filter_keys};
const SeveralRegistration<FilterKeys> several_filter_keys_cuda{DeviceType::Cuda};

}  // namespace
}  // namespace hugectr::cuda
