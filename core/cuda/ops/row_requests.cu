// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "core/cpp/ops/filter_keys.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/row_requests.hpp"
#include "core/cuda/memory/scratch.hpp"
#include "core/cuda/primitives/bucket_lanes.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

// Moves 16 bytes a key.
__global__ void request_rows_kernel(const std::uint32_t* __restrict__ rows,
                                    const std::uint32_t* __restrict__ buckets,
                                    std::uint32_t* __restrict__ requests,
                                    std::uint32_t* __restrict__ places, std::size_t n,
                                    std::uint32_t row_count, std::uint32_t per_device) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i <= n;
       i += step) {
    if (i < n) requests[i] = buckets[i] / per_device * row_count + rows[i];
    places[i] = static_cast<std::uint32_t>(i);
  }
}

void request_rows(const OpContext& context, const RequestRows& op) {
  const std::size_t n = op.rows.size();
  launch(context, RequestRows::kName, dim3(grid_for(n + 1, kThreads)), dim3(kThreads), 0,
         &request_rows_kernel, op.rows.ptr<std::uint32_t>(), op.buckets.ptr<std::uint32_t>(),
         op.requests.ptr<std::uint32_t>(), op.places.ptr<std::uint32_t>(), n,
         static_cast<std::uint32_t>(op.row_count),
         static_cast<std::uint32_t>(op.buckets_per_device));
}

// How many of the sorted numbers are below `bound`.
__device__ std::size_t count_below(const std::uint32_t* sorted, std::size_t size,
                                   std::uint64_t bound) {
  std::size_t low = 0, high = size;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (sorted[middle] < bound) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

__global__ void count_requests_kernel(const std::uint32_t* __restrict__ requests,
                                      const std::uint32_t* __restrict__ offsets,
                                      const std::int64_t* __restrict__ run_count,
                                      std::uint32_t* __restrict__ rows,
                                      std::int64_t* __restrict__ counts, std::size_t devices,
                                      std::uint32_t row_count) {
  const auto size = static_cast<std::size_t>(*run_count);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t thread = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::size_t u = thread; u < size; u += step) rows[u] = requests[u] % row_count;
  for (std::size_t r = thread; r < devices; r += step) {
    const std::size_t first = count_below(requests, size, std::uint64_t{r} * row_count);
    const std::size_t last = count_below(requests, size, std::uint64_t{r + 1} * row_count);
    counts[r] = static_cast<std::int64_t>(last - first);
    counts[devices + r] = size == 0 ? 0 : std::int64_t{offsets[last]} - offsets[first];
  }
}

void count_requests(const OpContext& context, const CountRequests& op) {
  const std::size_t devices = op.counts.shape[1];
  launch(context, CountRequests::kName,
         dim3(grid_for(std::max(op.requests.size(), devices), kThreads)), dim3(kThreads), 0,
         &count_requests_kernel, op.requests.ptr<std::uint32_t>(),
         op.run_offsets.ptr<std::uint32_t>(), op.run_count.ptr<std::int64_t>(),
         op.rows.ptr<std::uint32_t>(), op.counts.ptr<std::int64_t>(), devices,
         static_cast<std::uint32_t>(op.row_count));
}

// Reads 4 bytes a key and 8 a request, writes 4 bytes a key in no order.
__global__ void number_requests_kernel(BucketLanes lanes,
                                       const std::uint32_t* __restrict__ requests,
                                       const std::uint32_t* __restrict__ offsets,
                                       const std::uint32_t* __restrict__ places,
                                       const std::int64_t* __restrict__ shifts,
                                       std::uint32_t* __restrict__ numbers,
                                       std::uint32_t row_count) {
  lanes.for_each([&](std::size_t u, unsigned lane) {
    const auto number =
        static_cast<std::uint32_t>(static_cast<std::int64_t>(u) + shifts[requests[u] / row_count]);
    const std::size_t end = offsets[u + 1];
    for (std::size_t j = offsets[u] + std::size_t{lane}; j < end; j += lanes.lanes()) {
      numbers[places[j]] = number;
    }
  });
}

void number_requests(const OpContext& context, const NumberRequests& op) {
  if (op.requests.size() == 0) return;
  constexpr std::size_t kPiece = 32;  // shifts that a stream takes from memory that goes away
  const Scratch shifts(context, op.shifts.size() * sizeof(std::int64_t));
  for (std::size_t at = 0; at < op.shifts.size(); at += kPiece) {
    context.stream->copy_scalars(static_cast<std::int64_t*>(shifts.data()) + at,
                                 op.shifts.data() + at,
                                 std::min(kPiece, op.shifts.size() - at) * sizeof(std::int64_t));
  }
  const BucketLanes lanes(op.requests.size(), op.places.size());
  launch(context, NumberRequests::kName, lanes.grid(), lanes.block(), 0, &number_requests_kernel,
         lanes, op.requests.ptr<std::uint32_t>(), op.run_offsets.ptr<std::uint32_t>(),
         op.places.ptr<std::uint32_t>(), static_cast<const std::int64_t*>(shifts.data()),
         op.numbers.ptr<std::uint32_t>(), static_cast<std::uint32_t>(op.row_count));
}

struct OwnerRule {
  std::uint64_t devices;
  std::size_t slots;
  bool by_slot;
};

template <class Key>
__global__ void owners_of_keys_kernel(BucketLanes lanes, OwnerRule rule,
                                      const Key* __restrict__ keys,
                                      const std::uint32_t* __restrict__ offsets,
                                      std::uint32_t* __restrict__ own_offsets,
                                      std::uint32_t* __restrict__ buckets,
                                      std::uint32_t* __restrict__ owners,
                                      std::uint32_t* __restrict__ places) {
  const std::uint32_t start = offsets[0];
  lanes.for_each([&](std::size_t bucket, unsigned lane) {
    const std::uint32_t begin = offsets[bucket], end = offsets[bucket + 1];
    const auto of_slot = static_cast<std::uint32_t>(
        owner_of_slot(bucket % rule.slots, static_cast<std::size_t>(rule.devices)));
    for (std::size_t i = begin + std::size_t{lane}; i < end; i += lanes.lanes()) {
      const std::size_t at = i - start;
      buckets[at] = static_cast<std::uint32_t>(bucket);
      owners[at] = rule.by_slot
                       ? of_slot
                       : static_cast<std::uint32_t>(owner_of_key(widen_key(keys[i]), rule.devices));
      places[at] = static_cast<std::uint32_t>(at);
    }
    if (lane == 0) {
      own_offsets[bucket + 1] = end - start;
      if (bucket == 0) own_offsets[0] = 0;
    }
  });
}

void owners_of_keys(const OpContext& context, const OwnersOfKeys& op) {
  const BucketLanes lanes(op.row_offsets.size() - 1, op.buckets.size());
  const OwnerRule rule{static_cast<std::uint64_t>(op.device_count),
                       static_cast<std::size_t>(op.slot_num), op.by_slot};
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    launch(context, OwnersOfKeys::kName, lanes.grid(), lanes.block(), 0,
           &owners_of_keys_kernel<Key>, lanes, rule, op.keys.ptr<Key>(),
           op.row_offsets.ptr<std::uint32_t>(), op.own_offsets.ptr<std::uint32_t>(),
           op.buckets.ptr<std::uint32_t>(), op.owners.ptr<std::uint32_t>(),
           op.places.ptr<std::uint32_t>());
  });
}

const OpRegistration<RequestRows> request_rows_cuda{DeviceType::Cuda, &request_rows};
const OpRegistration<CountRequests> count_requests_cuda{DeviceType::Cuda, &count_requests};
const OpRegistration<NumberRequests> number_requests_cuda{DeviceType::Cuda, &number_requests};
const OpRegistration<OwnersOfKeys> owners_of_keys_cuda{DeviceType::Cuda, &owners_of_keys};

}  // namespace
}  // namespace hugectr::cuda
