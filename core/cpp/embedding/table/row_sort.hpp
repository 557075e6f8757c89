// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/thread_pool.hpp"

namespace hugectr {

/// A row of a table in 16 bytes, so that sorting a table moves little memory: its key, and in one
/// word slot (24 bits), local device (8 bits) and row on the device (32 bits).
struct RowPlace {
  static constexpr unsigned kDeviceBits = 8, kSlotBits = 24;

  std::int64_t key;
  std::uint64_t where;

  static RowPlace of(std::int64_t key, std::uint32_t slot, std::uint32_t device,
                     std::uint32_t row) {
    return {key, static_cast<std::uint64_t>(slot) << (32 + kDeviceBits) |
                     static_cast<std::uint64_t>(device) << 32 | row};
  }
  std::uint32_t slot() const { return static_cast<std::uint32_t>(where >> (32 + kDeviceBits)); }
  std::uint32_t device() const {
    return static_cast<std::uint32_t>(where >> 32) & ((1u << kDeviceBits) - 1);
  }
  std::uint32_t row() const { return static_cast<std::uint32_t>(where); }
};

/// Sorts by (slot, key), keys as signed numbers; rows of the same slot and key keep their order.
/// A radix sort over the bits that differ, on all threads of the pool. Rows in order are only read.
///
/// `places` and `scratch` have `n` elements each and are both written; returns the one of them that
/// holds the sorted rows.
HCTR_API RowPlace* sort_rows(ThreadPool& pool, RowPlace* places, RowPlace* scratch, std::size_t n);

}  // namespace hugectr
