// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/hash_index.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/hash_inserts.cuh"
#include "core/cuda/primitives/hash_lines.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kHashThreads = 256;

// The keys of a call and where its results go.
template <class Key>
struct Lookup {
  const Key* keys;
  const std::uint32_t* buckets;  // null when slots do not count
  std::uint32_t* rows;
  unsigned long long* report;
  std::uint32_t n;
  SlotOfBucket slot_of;

  __device__ std::uint32_t slot(std::uint32_t i) const {
    return buckets ? slot_of(buckets[i]) : 0u;
  }
  // What becomes of a reserved key.
  __device__ void refuse(std::uint32_t i) const {
    rows[i] = kNoRow;
    atomicMin(report + kReportedReserved, static_cast<unsigned long long>(i));
  }
};

HashPlace* places_of(const char* op, const TensorRef& index) {
  auto* places = reinterpret_cast<HashPlace*>(index.ptr<std::uint64_t>());
  HCTR_CHECK(reinterpret_cast<std::uintptr_t>(places) % sizeof(HashPlace) == 0, op,
             ": index must start at a multiple of ", sizeof(HashPlace), " bytes");
  return places;
}

unsigned long long* words_of(const TensorRef& numbers) {
  return reinterpret_cast<unsigned long long*>(numbers.ptr<std::int64_t>());
}

template <class Key, class Op>
Lookup<Key> lookup_of(const Op& op) {
  return {op.keys.template ptr<Key>(),
          op.slot_num ? op.buckets.template ptr<std::uint32_t>() : nullptr,
          op.rows.template ptr<std::uint32_t>(),
          words_of(op.report),
          static_cast<std::uint32_t>(op.keys.size()),
          {static_cast<std::uint32_t>(op.slot_num), static_cast<std::uint32_t>(op.slot_stride),
           static_cast<std::uint32_t>(op.slot_first)}};
}

// Rows below a limit.
struct FirstRows {
  std::uint64_t limit;
  __device__ bool operator()(std::uint32_t row) const { return row < limit; }
};

// Of them those that were born in time: 4 bytes more a key.
struct BornRows {
  std::uint64_t limit;
  const std::uint32_t* births;
  std::int64_t birth_limit;
  __device__ bool operator()(std::uint32_t row) const {
    return row < limit && births[row] <= birth_limit;
  }
};

// Moves a line of 64 bytes, or a few at a high load, and 4 + sizeof(Key) bytes of the batch a key.
// Lanes whose first line was full of other keys look on alone: at a load of three quarters that is
// one in eight.
// Visible: which rows may be found.
template <class Key, bool kSlots, class Visible>
__global__ void __launch_bounds__(kHashThreads, 6)
    hash_get_kernel(Lookup<Key> lookup, const HashPlace* __restrict__ places, std::size_t capacity,
                    Visible visible) {
  const std::uint32_t step = gridDim.x * blockDim.x;
  const std::uint32_t lane = threadIdx.x & 31;
  for (std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x - lane;
       first < lookup.n; first += step) {
    const std::uint64_t i = first + lane;
    const Key key = i < lookup.n ? lookup.keys[i] : kEmptyKey<Key>;
    const std::uint32_t slot = kSlots && i < lookup.n ? lookup.slot(i) : 0;
    const std::uint64_t word = key_word(key);
    LineWalk walk(hash_key(widen_key(key), slot), capacity);
    const bool wanted = key != kEmptyKey<Key>;
    LineView view = look<false, kSlots>(places, word, slot, wanted ? walk.line() : kNoLine);
    if (wanted) {
      while ((view.match | view.empty) == 0 && walk.next()) {
        view = look_alone<kSlots>(places, word, slot, walk.line());
      }
      const std::uint32_t row = view.match != 0 ? value_row(view.value) : kNoRow;
      lookup.rows[i] = visible(row) ? row : kNoRow;
    } else if (i < lookup.n) {
      lookup.refuse(static_cast<std::uint32_t>(i));
    }
  }
}

// New keys take their rows here; a batch without any costs what a lookup costs.
template <class Key>
struct NewRows {
  static constexpr bool kDistinct = false;
  Lookup<Key> lookup;
  unsigned long long* counter;
  Key* row_keys;
  std::uint32_t* row_slots;  // null: slots do not count
  unsigned long long limit;

  __device__ Key key(std::uint32_t i) const { return lookup.keys[i]; }
  __device__ std::uint32_t slot(std::uint32_t i) const { return lookup.slot(i); }
  __device__ void refuse(std::uint32_t i) const { lookup.refuse(i); }
  __device__ void found(std::uint32_t i, std::uint64_t value) const {
    lookup.rows[i] = value_row(value);
  }
  __device__ void lose(std::uint32_t i) const {
    lookup.rows[i] = kNoRow;
    atomicAdd(lookup.report + kReportedLost, 1ull);
  }
  __device__ unsigned long long reserve_rows(unsigned count) const {
    return atomicAdd(counter, static_cast<unsigned long long>(count));
  }
  __device__ std::uint64_t value(std::uint32_t i, Key key, std::uint32_t slot,
                                 unsigned long long row) const {
    const std::uint32_t number = row < limit ? static_cast<std::uint32_t>(row) : kNoRow;
    return write(i, key, slot, number);
  }
  __device__ std::uint64_t write(std::uint32_t i, Key key, std::uint32_t slot,
                                 std::uint32_t number) const {
    if (number != kNoRow) {
      row_keys[number] = key;
      if (row_slots) row_slots[number] = slot;
    }
    lookup.rows[i] = number;
    return pack_value(slot, number);
  }
};

// The same, where some numbers are free.
template <class Key>
struct ReusedRows : NewRows<Key> {
  const std::uint32_t* free_rows;
  unsigned long long numbered;

  __device__ std::uint64_t value(std::uint32_t i, Key key, std::uint32_t slot,
                                 unsigned long long row) const {
    if (row >= numbered || row >= this->limit) {
      return NewRows<Key>::value(i, key, slot, row);
    }
    return this->write(i, key, slot, free_rows[numbered - 1 - row]);
  }
};

template <class Key>
__global__ void hash_erase_kernel(std::uint32_t n, const std::uint32_t* __restrict__ rows,
                                  Key* __restrict__ row_keys) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) row_keys[rows[i]] = kEmptyKey<Key>;
}

// Rows that have their numbers already.
template <class Key>
struct KnownRows {
  static constexpr bool kDistinct = true;
  const Key* row_keys;
  const std::uint32_t* row_slots;
  unsigned long long* report;
  std::uint32_t first;

  __device__ Key key(std::uint32_t i) const { return row_keys[i]; }
  __device__ std::uint32_t slot(std::uint32_t i) const { return row_slots ? row_slots[i] : 0; }
  __device__ void refuse(std::uint32_t) const {}
  __device__ void lose(std::uint32_t) const { atomicAdd(report + kReportedLost, 1ull); }
  __device__ std::uint64_t value(std::uint32_t i) const { return pack_value(slot(i), first + i); }
};

template <bool kSlots, class Rows>
__global__ void __launch_bounds__(kInsertThreads, 10)
    hash_insert_kernel(Rows rows, HashPlace* places, std::size_t capacity, std::uint32_t n) {
  __shared__ InsertShared shared;
  InsertWarp<kSlots, Rows>(rows, places, capacity, shared).run(n);
}

// Sets elements of the report: -1, which is also the greatest unsigned number, what a minimum
// starts from; or 0.
void preset(const OpContext& context, const TensorRef& report, HashReport element, int byte) {
  HCTR_TRY(
      cudaMemsetAsync(words_of(report) + element, byte, sizeof(long long), native_stream(context)));
}

template <class Rows>
void launch_insert(const OpContext& context, const char* name, bool slots, const Rows& rows,
                   const TensorRef& index, std::size_t n) {
  // Every warp takes two groups of keys: those which need a second look nearly fill a warp then,
  // and the blocks stay short.
  const std::size_t share = 2 * kInsertThreads;
  const dim3 grid(static_cast<unsigned>((n + share - 1) / share));
  const auto kernel = slots ? &hash_insert_kernel<true, Rows> : &hash_insert_kernel<false, Rows>;
  launch(context, name, grid, dim3(kInsertThreads), 0, kernel, rows, places_of(name, index),
         index.size() / 2, static_cast<std::uint32_t>(n));
}

void hash_clear(const OpContext& context, const HashClear& op) {
  static_assert(kFreePlace == ~std::uint64_t{0} && kUnpublished == ~std::uint64_t{0},
                "the index is cleared byte by byte");
  HCTR_TRY(cudaMemsetAsync(op.index.ptr<std::uint64_t>(), 0xFF, op.index.size_in_bytes(),
                           native_stream(context)));
}

template <class Key, class Visible>
void launch_get(const OpContext& context, const HashGet& op, const Visible& visible) {
  const auto kernel = op.slot_num > 0 ? &hash_get_kernel<Key, true, Visible>
                                      : &hash_get_kernel<Key, false, Visible>;
  const std::size_t blocks = (op.keys.size() + kHashThreads - 1) / kHashThreads;
  launch(context, HashGet::kName, dim3(static_cast<unsigned>(blocks)), dim3(kHashThreads), 0,
         kernel, lookup_of<Key>(op), places_of(HashGet::kName, op.index), op.index.size() / 2,
         visible);
}

void hash_get(const OpContext& context, const HashGet& op) {
  preset(context, op.report, kReportedReserved, 0xFF);
  const auto limit = static_cast<std::uint64_t>(op.row_limit);
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    if (op.births.empty()) {
      launch_get<Key>(context, op, FirstRows{limit});
    } else {
      launch_get<Key>(context, op, BornRows{limit, op.births.ptr<std::uint32_t>(), op.birth_limit});
    }
  });
}

void hash_erase(const OpContext& context, const HashErase& op) {
  const auto n = static_cast<std::uint32_t>(op.rows.size());
  if (n == 0) return;
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    launch(context, HashErase::kName, dim3((n + kHashThreads - 1) / kHashThreads),
           dim3(kHashThreads), 0, &hash_erase_kernel<Key>, n, op.rows.ptr<std::uint32_t>(),
           op.row_keys.ptr<Key>());
  });
}

void hash_get_insert(const OpContext& context, const HashGetInsert& op) {
  preset(context, op.report, kReportedReserved, 0xFF);
  preset(context, op.report, kReportedLost, 0);
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    const NewRows<Key> rows{lookup_of<Key>(op), words_of(op.counter), op.row_keys.ptr<Key>(),
                            op.slot_num ? op.row_slots.ptr<std::uint32_t>() : nullptr,
                            static_cast<unsigned long long>(op.row_keys.size())};
    const auto insert = [&](const auto& with) {
      launch_insert(context, HashGetInsert::kName, op.slot_num > 0, with, op.index, op.keys.size());
    };
    if (op.free_rows.empty()) {
      insert(rows);
    } else {
      insert(ReusedRows<Key>{rows, op.free_rows.ptr<std::uint32_t>(),
                             static_cast<unsigned long long>(op.numbered)});
    }
  });
}

void hash_insert(const OpContext& context, const HashInsert& op) {
  preset(context, op.report, kReportedLost, 0);
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    const KnownRows<Key> rows{op.row_keys.ptr<Key>(),
                              op.row_slots.empty() ? nullptr : op.row_slots.ptr<std::uint32_t>(),
                              words_of(op.report), static_cast<std::uint32_t>(op.first)};
    launch_insert(context, HashInsert::kName, !op.row_slots.empty(), rows, op.index,
                  op.row_keys.size());
  });
}

const OpRegistration<HashErase> hash_erase_cuda{DeviceType::Cuda, &hash_erase};
const OpRegistration<HashClear> hash_clear_cuda{DeviceType::Cuda, &hash_clear};
const OpRegistration<HashGet> hash_get_cuda{DeviceType::Cuda, &hash_get};
const OpRegistration<HashGetInsert> hash_get_insert_cuda{DeviceType::Cuda, &hash_get_insert};
const OpRegistration<HashInsert> hash_insert_cuda{DeviceType::Cuda, &hash_insert};

}  // namespace
}  // namespace hugectr::cuda
