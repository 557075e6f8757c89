// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>

#include <cuda/atomic>

#include "core/cpp/ops/hash_index.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/hash_line.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

template <class Key>
struct Index {
  Key* keys;
  std::uint64_t* values;
  std::size_t capacity;

  Index(const char* op, const TensorRef& k, const TensorRef& v)
      : keys(k.ptr<Key>()), values(v.ptr<std::uint64_t>()), capacity(k.size()) {
    HCTR_CHECK(reinterpret_cast<std::uintptr_t>(keys) % 16 == 0, op,
               ": index_keys must start at a multiple of 16 bytes");
  }

  // A value says all by itself: no other memory is read on the strength of it before the kernel
  // ends. So relaxed order is enough, and readers of known keys pay for no fence.
  __device__ std::uint64_t value(std::size_t place) const {
    return ref(place).load(::cuda::memory_order_relaxed);
  }
  __device__ void publish(std::size_t place, std::uint64_t value) const {
    ref(place).store(value, ::cuda::memory_order_relaxed);
  }

 private:
  __device__::cuda::atomic_ref<std::uint64_t, ::cuda::thread_scope_device> ref(
      std::size_t place) const {
    return ::cuda::atomic_ref<std::uint64_t, ::cuda::thread_scope_device>(values[place]);
  }
};

// The keys of a call and where its results go.
template <class Key>
struct Lookup {
  const Key* keys;
  const std::uint32_t* buckets;  // null when slots do not count
  std::uint32_t* rows;
  unsigned long long* first_reserved;
  std::size_t n;
  SlotOfBucket slot_of;
};

template <class Key, class Op>
Lookup<Key> lookup_of(const OpContext& context, const Op& op) {
  auto* first_reserved = op.first_reserved.template ptr<std::int64_t>();
  // -1, which is also the greatest unsigned number: what a minimum starts from.
  HCTR_TRY(cudaMemsetAsync(first_reserved, 0xFF, sizeof *first_reserved, native_stream(context)));
  return {op.keys.template ptr<Key>(),
          op.slot_num ? op.buckets.template ptr<std::uint32_t>() : nullptr,
          op.rows.template ptr<std::uint32_t>(),
          reinterpret_cast<unsigned long long*>(first_reserved),
          op.keys.size(),
          {static_cast<std::uint32_t>(op.slot_num), static_cast<std::uint32_t>(op.slot_stride),
           static_cast<std::uint32_t>(op.slot_first)}};
}

// rows[i] = look(key, slot) for all keys; reserved keys get kNoRow.
template <class Key, class Look>
__device__ void for_each_key(const Lookup<Key>& lookup, const Look& look) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < lookup.n; i += step) {
    const Key key = lookup.keys[i];
    if (key == kEmptyKey<Key>) {
      lookup.rows[i] = kNoRow;
      atomicMin(lookup.first_reserved, static_cast<unsigned long long>(i));
    } else {
      lookup.rows[i] = look(key, lookup.buckets ? lookup.slot_of(lookup.buckets[i]) : 0u);
    }
  }
}

template <class Key>
__device__ std::uint32_t find_row(const Index<Key>& index, Key key, std::uint32_t slot) {
  LineWalk<Key> walk(hash_key(widen_key(key), slot), index.capacity);
  do {
    const LineMasks masks = probe_line<false>(index.keys + walk.first(), key);
    // Several places match only when the key has rows in several slots.
    for (unsigned left = masks.match; left != 0; left &= left - 1) {
      const std::uint64_t value = __ldg(reinterpret_cast<const unsigned long long*>(index.values) +
                                        walk.first() + (__ffs(static_cast<int>(left)) - 1));
      if (value_slot(value) == slot) return value_row(value);
    }
    if (masks.empty != 0) return kNoRow;
  } while (walk.next());
  return kNoRow;
}

// Moves at least a line of 64 bytes, a value and 8 + sizeof(Key) bytes of the batch a key.
template <class Key>
__global__ void __launch_bounds__(kThreads)
    hash_get_kernel(Lookup<Key> lookup, Index<Key> index, std::uint64_t row_limit) {
  for_each_key(lookup, [&](Key key, std::uint32_t slot) {
    const std::uint32_t row = find_row(index, key, slot);
    return row < row_limit ? row : kNoRow;
  });
}

// What a new row needs besides its place.
template <class Key>
struct RowWriter {
  unsigned long long* counter;
  Key* row_keys;
  std::uint32_t* row_slots;  // null: slots do not count
  unsigned long long limit;

  // Threads of a warp that come here together take their rows with one addition.
  __device__ std::uint32_t next_row(Key key, std::uint32_t slot) const {
    const auto together = cooperative_groups::coalesced_threads();
    unsigned long long row = 0;
    if (together.thread_rank() == 0) row = atomicAdd(counter, together.num_threads());
    row = together.shfl(row, 0) + together.thread_rank();
    if (row >= limit) return kNoRow;
    row_keys[row] = key;
    if (row_slots) row_slots[row] = slot;
    return static_cast<std::uint32_t>(row);
  }
};

// A place is filled once and never again, so a line that is read while others write it is right
// wherever it shows a key; where it shows a free place, the swap tells the truth. A key goes into
// the foremost free place only, so that two threads with the same key always meet: the slower one
// fails to swap, reads the line again and finds the key.
//
// Every pass of the loop either ends it, moves on, or waits for a value that the winner of the
// place publishes in the very pass in which it won: nobody waits while holding a place, so threads
// of one warp may wait for each other.
template <class Key>
__device__ std::uint32_t find_or_insert(const Index<Key>& index, Key key, std::uint32_t slot,
                                        const RowWriter<Key>& writer) {
  LineWalk<Key> walk(hash_key(widen_key(key), slot), index.capacity);
  while (true) {
    const LineMasks masks = probe_line<true>(index.keys + walk.first(), key);
    bool unpublished = false;
    for (unsigned left = masks.match; left != 0; left &= left - 1) {
      const std::uint64_t value = index.value(walk.first() + (__ffs(static_cast<int>(left)) - 1));
      if (value == kUnpublished) {
        unpublished = true;
      } else if (value_slot(value) == slot) {
        return value_row(value);
      }
    }
    if (unpublished) {
      __nanosleep(40);
    } else if (masks.empty != 0) {
      const std::size_t place = walk.first() + walk.foremost(masks.empty);
      if (swap_in(index.keys + place, key) == kEmptyKey<Key>) {
        const std::uint32_t row = writer.next_row(key, slot);
        index.publish(place, pack_value(slot, row));
        return row;
      }
    } else if (!walk.next()) {
      __trap();  // the index is full: the stream reports a DeviceError
    }
  }
}

template <class Key>
__global__ void __launch_bounds__(kThreads)
    hash_get_insert_kernel(Lookup<Key> lookup, Index<Key> index, RowWriter<Key> writer) {
  for_each_key(lookup, [&](Key key, std::uint32_t slot) {
    return find_or_insert(index, key, slot, writer);
  });
}

template <class Key>
__global__ void __launch_bounds__(kThreads)
    hash_insert_kernel(const Key* row_keys, const std::uint32_t* row_slots, std::size_t n,
                       std::size_t first, Index<Key> index) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    const Key key = row_keys[i];
    const std::uint32_t slot = row_slots ? row_slots[i] : 0;
    LineWalk<Key> walk(hash_key(widen_key(key), slot), index.capacity);
    while (true) {
      // All (slot, key) are distinct, so only free places matter.
      const unsigned empty = probe_line<true>(index.keys + walk.first(), key).empty;
      if (empty == 0) {
        if (!walk.next()) __trap();  // the index is full: the stream reports a DeviceError
        continue;
      }
      const std::size_t place = walk.first() + walk.foremost(empty);
      if (swap_in(index.keys + place, key) != kEmptyKey<Key>) continue;
      index.values[place] = pack_value(slot, static_cast<std::uint32_t>(first + i));
      break;
    }
  }
}

template <class Key>
__global__ void __launch_bounds__(kThreads) fill_empty_kernel(Key* keys, std::size_t capacity) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < capacity; i += step) {
    keys[i] = kEmptyKey<Key>;
  }
}

void hash_clear(const OpContext& context, const HashClear& op) {
  with_key_type(op.index_keys.dtype, [&]<class Key>(Key) {
    launch(context, HashClear::kName, dim3(grid_for(op.index_keys.size(), kThreads)),
           dim3(kThreads), 0, &fill_empty_kernel<Key>, op.index_keys.ptr<Key>(),
           op.index_keys.size());
  });
  static_assert(kUnpublished == ~std::uint64_t{0}, "values are cleared byte by byte");
  HCTR_TRY(cudaMemsetAsync(op.index_values.ptr<std::uint64_t>(), 0xFF,
                           op.index_values.size_in_bytes(), native_stream(context)));
}

void hash_get(const OpContext& context, const HashGet& op) {
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    launch(context, HashGet::kName, dim3(grid_for(op.keys.size(), kThreads)), dim3(kThreads), 0,
           &hash_get_kernel<Key>, lookup_of<Key>(context, op),
           Index<Key>(HashGet::kName, op.index_keys, op.index_values),
           static_cast<std::uint64_t>(op.row_limit));
  });
}

void hash_get_insert(const OpContext& context, const HashGetInsert& op) {
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    const RowWriter<Key> writer{
        reinterpret_cast<unsigned long long*>(op.counter.ptr<std::int64_t>()),
        op.row_keys.ptr<Key>(), op.slot_num ? op.row_slots.ptr<std::uint32_t>() : nullptr,
        static_cast<unsigned long long>(op.row_keys.size())};
    launch(context, HashGetInsert::kName, dim3(grid_for(op.keys.size(), kThreads)), dim3(kThreads),
           0, &hash_get_insert_kernel<Key>, lookup_of<Key>(context, op),
           Index<Key>(HashGetInsert::kName, op.index_keys, op.index_values), writer);
  });
}

void hash_insert(const OpContext& context, const HashInsert& op) {
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    launch(context, HashInsert::kName, dim3(grid_for(op.row_keys.size(), kThreads)), dim3(kThreads),
           0, &hash_insert_kernel<Key>, op.row_keys.ptr<Key>(),
           op.row_slots.empty() ? nullptr : op.row_slots.ptr<std::uint32_t>(), op.row_keys.size(),
           static_cast<std::size_t>(op.first),
           Index<Key>(HashInsert::kName, op.index_keys, op.index_values));
  });
}

const OpRegistration<HashClear> hash_clear_cuda{DeviceType::Cuda, &hash_clear};
const OpRegistration<HashGet> hash_get_cuda{DeviceType::Cuda, &hash_get};
const OpRegistration<HashGetInsert> hash_get_insert_cuda{DeviceType::Cuda, &hash_get_insert};
const OpRegistration<HashInsert> hash_insert_cuda{DeviceType::Cuda, &hash_insert};

}  // namespace
}  // namespace hugectr::cuda
