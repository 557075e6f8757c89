// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/ops/loops/hash_probe.hpp"

/// What calls on the index of a hash table look for, and what becomes of it: the keys of a call,
/// the rows it may find, and the rows that new keys get.
namespace hugectr::cuda {

/// The keys of a call and where its results go.
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

/// Rows below a limit.
struct FirstRows {
  std::uint64_t limit;
  __device__ bool operator()(std::uint32_t row) const { return row < limit; }
};

/// Of them those that were born in time: 4 bytes more a key.
struct BornRows {
  std::uint64_t limit;
  const std::uint32_t* births;
  std::int64_t birth_limit;
  __device__ bool operator()(std::uint32_t row) const {
    return row < limit && births[row] <= birth_limit;
  }
};

/// New keys take their rows here; a batch without any costs what a lookup costs.
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

/// The same, where some numbers are free.
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

/// Rows that have their numbers already.
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

}  // namespace hugectr::cuda
