// SPDX-License-Identifier: Apache-2.0
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cub/device/device_scan.cuh>
#include <map>
#include <utility>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/filter_keys.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/primitives/bucket_lanes.cuh"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

// sums[i] := count(0) + ... + count(i - 1) for i < n.
template <class Counts>
void exclusive_sum(const OpContext& context, const Counts& counts, std::uint32_t* sums,
                   std::size_t n) {
  std::size_t bytes = 0;
  HCTR_TRY(cub::DeviceScan::ExclusiveSum(nullptr, bytes, counts, sums,
                                         static_cast<std::uint64_t>(n), native_stream(context)));
  const Scratch temporary(context, bytes);
  HCTR_TRY(cub::DeviceScan::ExclusiveSum(temporary.data(), bytes, counts, sums,
                                         static_cast<std::uint64_t>(n), native_stream(context)));
}
template <class Count>
auto counts_of(const Count& count) {
  return thrust::make_transform_iterator(thrust::make_counting_iterator<std::uint64_t>(0), count);
}

// Both ways to own keys say how many there are of each of their `items`, and move those once sums
// of these numbers are there. Several tables have their sums one after the other: only differences
// within a table count.

// Keys that the device owns.
template <class Key>
struct ByKey {
  const Key* keys;
  std::uint64_t n, devices, rank;
  bool mask;                  // a mask costs a fraction of a 64-bit division
  const std::uint32_t* held;  // or null
  bool keep_held;
  const std::uint32_t* offsets;
  Key* own;
  std::uint32_t *own_offsets, *places;
  std::size_t buckets;

  explicit ByKey(const FilterKeys& op)
      : keys(op.keys.ptr<Key>()),
        n(op.keys.size()),
        devices(static_cast<std::uint64_t>(op.device_count)),
        rank(static_cast<std::uint64_t>(op.rank)),
        mask(std::has_single_bit(devices)),
        held(op.held.empty() ? nullptr : op.held.ptr<std::uint32_t>()),
        keep_held(op.keep_held),
        offsets(op.row_offsets.ptr<std::uint32_t>()),
        own(op.own_keys.ptr<Key>()),
        own_offsets(op.own_row_offsets.ptr<std::uint32_t>()),
        places(op.places()),
        buckets(op.row_offsets.size() - 1) {}

  HCTR_HD std::size_t items() const { return n + 1; }
  unsigned blocks() const { return grid_for(std::max<std::size_t>(n, buckets + 1), kThreads); }

  // 1 for a key that the device owns; the one behind the last counts nothing.
  __device__ std::uint32_t operator()(std::uint64_t i) const {
    if (i >= n) return 0;
    if (held && (held[i] != kNoRow) != keep_held) return 0;
    const std::uint64_t key = widen_key(keys[i]);
    return (mask ? key & (devices - 1) : owner_of_key(key, devices)) == rank;
  }

  // before[i]: own keys among the first i, where key i goes when it is one.
  __device__ void gather(const std::uint32_t* __restrict__ before) const {
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
    for (std::size_t b = thread; b <= buckets; b += step) {
      own_offsets[b] = before[offsets[b]] - first;
    }
  }
};

// Buckets of the device's own slots in the batch.
template <class Key>
struct BySlot {
  const Key* keys;
  const std::uint32_t* offsets;
  Key* own;
  std::uint32_t *own_offsets, *places;
  std::size_t slots, devices, rank, own_slots, count;
  BucketLanes lanes;  // about one in `devices` of the keys is copied

  explicit BySlot(const FilterKeys& op)
      : keys(op.keys.ptr<Key>()),
        offsets(op.row_offsets.ptr<std::uint32_t>()),
        own(op.own_keys.ptr<Key>()),
        own_offsets(op.own_row_offsets.ptr<std::uint32_t>()),
        places(op.places()),
        slots(static_cast<std::size_t>(op.slot_num)),
        devices(static_cast<std::size_t>(op.device_count)),
        rank(static_cast<std::size_t>(op.rank)),
        own_slots(slots_of_device(slots, rank, devices)),
        count(op.own_row_offsets.size() - 1),
        lanes(count, op.keys.size() / devices) {}

  HCTR_HD std::size_t items() const { return count + 1; }
  // Of which the first writes where the last bucket ends.
  unsigned blocks() const { return std::max(lanes.grid().x, 1u); }

  __device__ std::size_t source(std::size_t own_bucket) const {
    return own_bucket / own_slots * slots + own_bucket % own_slots * devices + rank;
  }
  // Keys of an own bucket; the one behind the last has none.
  __device__ std::uint32_t operator()(std::uint64_t own_bucket) const {
    if (own_bucket >= count) return 0;
    const std::size_t bucket = source(own_bucket);
    return offsets[bucket + 1] - offsets[bucket];
  }

  __device__ void gather(const std::uint32_t* __restrict__ before) const {
    const std::uint32_t first = before[0];
    if (blockIdx.x == 0 && threadIdx.x == 0) own_offsets[count] = before[count] - first;
    lanes.for_each([&](std::size_t own_bucket, unsigned lane) {
      const std::uint32_t from = offsets[source(own_bucket)];
      const std::size_t begin = before[own_bucket] - first;
      const std::size_t keys_there = before[own_bucket + 1] - before[own_bucket];
      if (lane == 0) own_offsets[own_bucket] = static_cast<std::uint32_t>(begin);
      for (std::size_t i = lane; i < keys_there; i += lanes.lanes()) {
        own[begin + i] = keys[from + i];
        if (places) places[begin + i] = from + static_cast<std::uint32_t>(i);
      }
    });
  }
};

template <class Own>
__global__ void gather_kernel(Own keys, const std::uint32_t* __restrict__ before) {
  keys.gather(before);
}

// Of a table, and where it has its numbers.
template <class Own>
struct Part {
  Own keys;
  std::uint32_t* numbers;
};
template <class Own>
__global__ void count_many_kernel(const __grid_constant__ Many<Part<Own>> many) {
  const Part<Own>& part = many.mine();
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < part.keys.items(); i += step) {
    part.numbers[i] = part.keys(i);
  }
}
template <class Own>
__global__ void gather_many_kernel(const __grid_constant__ Many<Part<Own>> many) {
  many.mine().keys.gather(many.mine().numbers);
}

template <class Own>
void filter_one(const OpContext& context, const Own& keys) {
  const Scratch scratch(context, keys.items() * sizeof(std::uint32_t));
  auto* const before = static_cast<std::uint32_t*>(scratch.data());
  exclusive_sum(context, counts_of(keys), before, keys.items());
  launch(context, FilterKeys::kName, dim3(keys.blocks()), dim3(kThreads), 0, &gather_kernel<Own>,
         keys, before);
}

// Four launches for all tables, which write and read 4 bytes an item more than those of one.
template <class Own>
void filter_several(const OpContext& context, const std::vector<const FilterKeys*>& ops) {
  constexpr const char* kName = FilterKeys::kSeveralName;
  std::vector<Part<Own>> parts;
  std::size_t items = 0;
  for (const FilterKeys* op : ops) items += parts.emplace_back(Own(*op), nullptr).keys.items();
  const Scratch scratch(context, items * sizeof(std::uint32_t));
  auto* const numbers = static_cast<std::uint32_t*>(scratch.data());
  std::uint32_t* next = numbers;
  for (Part<Own>& part : parts) {
    part.numbers = next;
    next += part.keys.items();
  }
  launch_many<Part<Own>>(
      context, kName, parts, dim3(kThreads), &count_many_kernel<Own>,
      [](const Part<Own>& part) { return grid_for(part.keys.items(), kThreads); });
  exclusive_sum(context, numbers, numbers, items);
  launch_many<Part<Own>>(context, kName, parts, dim3(kThreads), &gather_many_kernel<Own>,
                         [](const Part<Own>& part) { return part.keys.blocks(); });
}

void filter_keys(const OpContext& context, const FilterKeys& op) {
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    op.by_slot ? filter_one(context, BySlot<Key>(op)) : filter_one(context, ByKey<Key>(op));
  });
}

void filter_keys_of_several(const OpContext& context, const Several<FilterKeys>& several) {
  std::map<std::pair<TensorScalarType, bool>, std::vector<const FilterKeys*>> alike;
  for (const FilterKeys& op : several.ops) alike[{op.keys.dtype, op.by_slot}].push_back(&op);
  for (const auto& [kind, ops] : alike) {
    with_key_type(kind.first, [&]<class Key>(Key) {
      kind.second ? filter_several<BySlot<Key>>(context, ops)
                  : filter_several<ByKey<Key>>(context, ops);
    });
  }
}

const OpRegistration<FilterKeys> filter_keys_cuda{DeviceType::Cuda, &filter_keys};
const SeveralRegistration<FilterKeys> several_filter_keys_cuda{DeviceType::Cuda,
                                                               &filter_keys_of_several};

}  // namespace
}  // namespace hugectr::cuda
