// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/hash_index.hpp"
#include "core/cpp/ops/loops/direct_place.hpp"

/// The ops of hash_index.hpp on a direct index, on the CPU.
namespace hugectr {

constexpr std::size_t kDirectGrain = 4096;

/// The lesser of what is there and i.
inline void lower_to(std::atomic<std::int64_t>& least, std::int64_t i) {
  std::int64_t now = least.load();
  while ((now < 0 || i < now) && !least.compare_exchange_weak(now, i)) {
  }
}

/// rows[i] = look(place, key, slot) of every key; those outside and reserved ones have kNoRow.
template <class Key, class Op, class Look>
void for_each_direct_key(ThreadPool& pool, const Op& op, const Look& look) {
  const Key* const keys = op.keys.template ptr<Key>();
  const auto* const buckets = op.buckets.template ptr<std::uint32_t>();
  const auto* const slots = op.direct.template ptr<std::int64_t>();
  auto* const rows = op.rows.template ptr<std::uint32_t>();
  const SlotOfBucket slot_of{static_cast<std::uint32_t>(op.slot_num),
                             static_cast<std::uint32_t>(op.slot_stride),
                             static_cast<std::uint32_t>(op.slot_first)};
  std::atomic<std::int64_t> reserved{-1}, outside{-1};
  parallel_for(pool, op.keys.size(), kDirectGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t slot = slot_of(buckets[i]);
      const std::uint64_t place = direct_place(slots, slot, keys[i]);
      rows[i] = place == kNoPlace ? kNoRow : look(place, keys[i], slot);
      if (place != kNoPlace) continue;
      lower_to(keys[i] == kEmptyKey<Key> ? reserved : outside, static_cast<std::int64_t>(i));
    }
  });
  auto* const report = op.report.template ptr<std::int64_t>();
  report[kReportedReserved] = reserved.load();
  report[kReportedOutside] = outside.load();
}

inline void direct_get(const OpContext& context, const HashGet& op) {
  const auto* const index = op.index.ptr<std::uint32_t>();
  const auto* const births = op.births.empty() ? nullptr : op.births.ptr<std::uint32_t>();
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    for_each_direct_key<Key>(*context.pool, op, [=, &op](std::uint64_t place, Key, std::uint32_t) {
      const std::uint32_t row = row_of_place(index[place]);
      if (row >= static_cast<std::uint64_t>(op.row_limit)) return kNoRow;
      return births && births[row] > op.birth_limit ? kNoRow : row;
    });
  });
}

/// next_row(key, slot): the number of a new row, or kNoRow.
template <class Key, class NextRow>
void direct_get_insert(const OpContext& context, const HashGetInsert& op, const NextRow& next_row) {
  auto* const index = op.index.ptr<std::uint32_t>();
  for_each_direct_key<Key>(
      *context.pool, op, [&](std::uint64_t place, Key key, std::uint32_t slot) {
        std::atomic_ref<std::uint32_t> there(index[place]);
        std::uint32_t value = there.load(std::memory_order_acquire);
        if (value == kNoRow &&
            there.compare_exchange_strong(value, kClaimed, std::memory_order_acq_rel)) {
          const std::uint32_t row = next_row(key, slot);
          there.store(row == kNoRow ? kRowRefused : row, std::memory_order_release);
          return row;
        }
        while (value == kClaimed) {  // who takes it may have lost its core
          std::this_thread::yield();
          value = there.load(std::memory_order_acquire);
        }
        return row_of_place(value);
      });
}

inline void direct_insert(const OpContext& context, const HashInsert& op) {
  auto* const index = op.index.ptr<std::uint32_t>();
  const auto* const slots = op.direct.ptr<std::int64_t>();
  const auto* const row_slots = op.row_slots.ptr<std::uint32_t>();
  std::atomic<std::int64_t> lost{0};
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    const Key* const keys = op.row_keys.ptr<Key>();
    parallel_for(
        *context.pool, op.row_keys.size(), kDirectGrain, [&](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) {
            if (keys[i] == kEmptyKey<Key>) continue;
            const std::uint64_t place = direct_place(slots, row_slots[i], keys[i]);
            if (place == kNoPlace) {
              ++lost;
            } else {
              index[place] = static_cast<std::uint32_t>(op.first) + static_cast<std::uint32_t>(i);
            }
          }
        });
  });
  op.report.ptr<std::int64_t>()[kReportedLost] = lost.load();
}

}  // namespace hugectr
