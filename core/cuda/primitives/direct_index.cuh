// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/ops/hash_index.hpp"
#include "core/cpp/ops/loops/direct_place.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/hash_items.cuh"

/// The ops of hash_index.hpp on a direct index. A key moves 4 random bytes beside those of the
/// batch; nobody waits for anybody: who finds a place taken a moment ago is asked again behind it.
namespace hugectr::cuda {

constexpr unsigned kDirectThreads = 256;

template <class Key>
struct DirectLookup {
  Lookup<Key> lookup;
  std::uint32_t* index;
  const std::int64_t* slots;

  // The key's place; what has none is told.
  __device__ std::uint64_t place(std::uint32_t i, Key key, std::uint32_t slot) const {
    const std::uint64_t found = direct_place(slots, slot, key);
    if (found == kNoPlace) {
      if (key == kEmptyKey<Key>) {
        lookup.refuse(i);
      } else {
        lookup.rows[i] = kNoRow;
        atomicMin(lookup.report + kReportedOutside, static_cast<unsigned long long>(i));
      }
    }
    return found;
  }
};

template <class Key, class Visible>
__global__ void __launch_bounds__(kDirectThreads)
    direct_get_kernel(DirectLookup<Key> a, Visible visible) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.lookup.n) return;
  const std::uint64_t place = a.place(i, a.lookup.keys[i], a.lookup.slot(i));
  if (place == kNoPlace) return;
  const std::uint32_t row = row_of_place(a.index[place]);
  a.lookup.rows[i] = visible(row) ? row : kNoRow;
}

// Of NewRows or ReusedRows, with room for the number of one row at a time.
template <class Key, class Rows>
__global__ void __launch_bounds__(kDirectThreads)
    direct_get_insert_kernel(DirectLookup<Key> a, Rows rows) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.lookup.n) return;
  const Key key = a.lookup.keys[i];
  const std::uint32_t slot = a.lookup.slot(i);
  const std::uint64_t place = a.place(i, key, slot);
  if (place == kNoPlace) return;
  std::uint32_t value = *static_cast<volatile std::uint32_t*>(a.index + place);
  if (value == kNoRow) {
    value = atomicCAS(a.index + place, kNoRow, kClaimed);
    if (value == kNoRow) {
      const std::uint32_t row = value_row(rows.value(i, key, slot, rows.reserve_rows(1)));
      atomicExch(a.index + place, row == kNoRow ? kRowRefused : row);
      return;  // value() has written rows[i]
    }
  }
  a.lookup.rows[i] = value;
}

// Rows of keys whose place somebody else was about to write.
template <class Key>
__global__ void __launch_bounds__(kDirectThreads) direct_again_kernel(DirectLookup<Key> a) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.lookup.n) return;
  const std::uint32_t value = a.lookup.rows[i];
  if (value == kClaimed) {
    const std::uint64_t place = direct_place(a.slots, a.lookup.slot(i), a.lookup.keys[i]);
    a.lookup.rows[i] = row_of_place(a.index[place]);
  } else if (value == kRowRefused) {
    a.lookup.rows[i] = kNoRow;
  }
}

template <class Key>
__global__ void __launch_bounds__(kDirectThreads)
    direct_insert_kernel(KnownRows<Key> rows, std::uint32_t* index, const std::int64_t* slots,
                         std::uint32_t n) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || rows.row_keys[i] == kEmptyKey<Key>) return;
  const std::uint64_t place = direct_place(slots, rows.slot(i), rows.row_keys[i]);
  if (place == kNoPlace) {
    rows.lose(i);
  } else {
    index[place] = rows.first + i;
  }
}

inline unsigned direct_blocks(std::size_t n) {
  return static_cast<unsigned>((n + kDirectThreads - 1) / kDirectThreads);
}

template <class Key, class Op>
DirectLookup<Key> direct_lookup(const Op& op, const Lookup<Key>& lookup) {
  return {lookup, op.index.template ptr<std::uint32_t>(), op.direct.template ptr<std::int64_t>()};
}

template <class Key, class Visible>
void launch_direct_get(const OpContext& context, const HashGet& op, const Lookup<Key>& lookup,
                       const Visible& visible) {
  if (lookup.n == 0) return;
  launch(context, HashGet::kName, dim3(direct_blocks(lookup.n)), dim3(kDirectThreads), 0,
         &direct_get_kernel<Key, Visible>, direct_lookup(op, lookup), visible);
}

template <class Key, class Rows>
void launch_direct_get_insert(const OpContext& context, const HashGetInsert& op,
                              const Lookup<Key>& lookup, const Rows& rows) {
  if (lookup.n == 0) return;
  const dim3 grid(direct_blocks(lookup.n)), block(kDirectThreads);
  const DirectLookup<Key> args = direct_lookup(op, lookup);
  launch(context, HashGetInsert::kName, grid, block, 0, &direct_get_insert_kernel<Key, Rows>, args,
         rows);
  launch(context, HashGetInsert::kName, grid, block, 0, &direct_again_kernel<Key>, args);
}

template <class Key>
void launch_direct_insert(const OpContext& context, const HashInsert& op,
                          const KnownRows<Key>& rows) {
  const std::size_t n = op.row_keys.size();
  if (n == 0) return;
  launch(context, HashInsert::kName, dim3(direct_blocks(n)), dim3(kDirectThreads), 0,
         &direct_insert_kernel<Key>, rows, op.index.ptr<std::uint32_t>(),
         op.direct.ptr<std::int64_t>(), static_cast<std::uint32_t>(n));
}

}  // namespace hugectr::cuda
