// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/hash_index.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_index.hpp"
#include "core/cpp/ops/loops/direct_index.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/loops/host_index.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kIndexGrain = 4096;
/// Keys whose lines are fetched before they are needed: enough to hide the latency of main memory.
constexpr std::size_t kIndexAhead = 32;

template <class Op>
SlotOfBucket slot_of_bucket(const Op& op) {
  return {static_cast<std::uint32_t>(op.slot_num), static_cast<std::uint32_t>(op.slot_stride),
          static_cast<std::uint32_t>(op.slot_first)};
}

/// What a new row needs besides its place.
template <class Key>
struct RowWriter {
  std::int64_t* counter;
  Key* row_keys;
  std::uint32_t* row_slots;  // nullptr: slots do not count
  std::int64_t limit;
  const std::uint32_t* free_rows;
  std::int64_t numbered;

  std::uint32_t next_row(Key key, std::uint32_t slot) const {
    std::int64_t row = std::atomic_ref(*counter).fetch_add(1, std::memory_order_relaxed);
    if (row >= limit) return kNoRow;
    if (row < numbered) row = free_rows[numbered - 1 - row];
    row_keys[row] = key;
    if (row_slots) row_slots[row] = slot;
    return static_cast<std::uint32_t>(row);
  }
};

/// Keys of a call for which the index had no place.
using LostKeys = std::atomic<std::int64_t>;

template <class Key>
std::uint32_t find_or_insert(const HostIndex& index, Key key, std::uint32_t slot,
                             std::uint64_t hash, const RowWriter<Key>& writer, LostKeys& lost) {
  const std::uint64_t word = key_word(key);
  const auto begin_row = [&](std::size_t place) {
    const std::uint32_t row = writer.next_row(key, slot);
    index.publish(place, pack_value(slot, row));
    return row;
  };
  LineWalk walk = index.walk(hash);
  while (true) {
    const LineBits line(index, walk.first(), word);
    for (unsigned left = line.match; left != 0; left &= left - 1) {
      const std::size_t place = walk.first() + static_cast<unsigned>(std::countr_zero(left));
      std::uint64_t value = index.value(place);
      if (value_slot(value) != slot) continue;
      if (value_row(value) == kDeadRow) {
        if (index.revive(place, slot)) return begin_row(place);
        value = index.value(place);
      }
      return value_row(value);
    }
    if (line.free != 0) {
      // The place that is tried first. Where another thread was faster, the line is looked at
      // again: it may have brought this key.
      const unsigned start = walk.place(0);
      const unsigned turned = line.free >> start | line.free << (kPlacesPerLine - start);
      const auto step = static_cast<unsigned>(std::countr_zero(turned));
      const std::size_t place = walk.first() + walk.place(step);
      std::uint64_t there = 0;
      if (index.take(place, word, there)) return begin_row(place);
    } else if (!walk.next()) {
      break;
    }
  }
  lost.fetch_add(1, std::memory_order_relaxed);
  return kNoRow;
}

/// The keys of a call, and where their rows go.
template <class Key>
struct KeyList {
  const Key* keys;
  const std::uint32_t* buckets;  // nullptr: slots do not count
  SlotOfBucket slot_of;
  std::uint32_t* rows;

  template <class Op>
  explicit KeyList(const Op& op)
      : keys(op.keys.template ptr<Key>()),
        buckets(op.slot_num ? op.buckets.template ptr<std::uint32_t>() : nullptr),
        slot_of(slot_of_bucket(op)),
        rows(op.rows.template ptr<std::uint32_t>()) {}
};

/// look(i, key, slot, hash) for keys [begin, end) in their order, fetching lines ahead; reserved
/// keys get kNoRow. By value: what is reached by reference would be read again after every store.
/// Returns the first reserved key, or `end`.
template <class Key, class Look>
[[gnu::always_inline]] inline std::size_t look_ahead(const KeyList<Key> list, const HostIndex index,
                                                     std::size_t begin, std::size_t end,
                                                     const Look& look) {
  std::size_t first_reserved = end;
  std::uint64_t hashes[kIndexAhead];
  std::uint32_t slots[kIndexAhead];
  for (std::size_t ahead = begin; ahead < end + kIndexAhead; ++ahead) {
    if (ahead >= begin + kIndexAhead) {
      const std::size_t i = ahead - kIndexAhead;
      const Key key = list.keys[i];
      if (key != kEmptyKey<Key>) {
        look(i, key, slots[i % kIndexAhead], hashes[i % kIndexAhead]);
      } else {
        list.rows[i] = kNoRow;
        first_reserved = std::min(first_reserved, i);
      }
    }
    if (ahead < end) {
      const std::uint32_t slot = list.buckets ? list.slot_of(list.buckets[ahead]) : 0;
      const std::uint64_t hash = hash_key(widen_key(list.keys[ahead]), slot);
      slots[ahead % kIndexAhead] = slot;
      hashes[ahead % kIndexAhead] = hash;
      index.prefetch(hash);
    }
  }
  return first_reserved;
}

/// rows[i] = row_of(row of the index) for keys [begin, end), which are only read. As look_ahead().
template <class Key, class RowOf>
std::size_t find_keys(const KeyList<Key> list, const HostIndex index, const RowOf row_of,
                      std::size_t begin, std::size_t end) {
  LateKeys<Key> late(index);
  const auto found = [=](std::size_t i, std::uint32_t row) { list.rows[i] = row_of(row); };
  const std::size_t first_reserved = look_ahead(
      list, index, begin, end, [&](std::size_t i, Key key, std::uint32_t slot, std::uint64_t hash) {
        const std::uint64_t value = value_in_first_line(index, key_word(key), hash);
        if (value != kUnpublished && value_slot(value) == slot) {
          found(i, value_row(value));
        } else {
          late.add(i, key, slot, hash, found);
        }
      });
  late.finish(found);
  return first_reserved;
}

/// run(list, begin, end), which returns the first reserved key or `end`, for all keys, on all
/// threads.
template <class Key, class Op, class Run>
void for_each_key(ThreadPool& pool, const Op& op, const Run& run) {
  const std::size_t n = op.keys.size();
  const KeyList<Key> list(op);
  std::atomic<std::size_t> first_reserved{n};
  parallel_for(pool, n, kIndexGrain, [&](std::size_t begin, std::size_t end) {
    const std::size_t first = run(list, begin, end);
    std::size_t least = first_reserved.load();
    while (first < end && first < least && !first_reserved.compare_exchange_weak(least, first)) {
    }
  });
  const std::size_t least = first_reserved.load();
  op.report.template ptr<std::int64_t>()[kReportedReserved] =
      least == n ? -1 : static_cast<std::int64_t>(least);
}

void hash_clear_kernel(const OpContext& context, const HashClear& op) {
  if (op.index.dtype == TensorScalarType::UInt32) {
    std::fill_n(op.index.ptr<std::uint32_t>(), op.index.size(), kNoRow);
    return;
  }
  std::uint64_t* words = op.index.ptr<std::uint64_t>();
  static_assert(kFreePlace == kUnpublished, "both words of a place are cleared to the same");
  parallel_for(*context.pool, op.index.size(), std::size_t{1} << 17,
               [&](std::size_t begin, std::size_t end) {
                 std::fill(words + begin, words + end, kFreePlace);
               });
}

void hash_get_kernel(const OpContext& context, const HashGet& op) {
  if (!op.direct.empty()) return direct_get(context, op);
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    const HostIndex index(op.index);
    const std::uint64_t limit =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(op.row_limit), kDeadRow);
    const std::uint32_t* births = op.births.empty() ? nullptr : op.births.ptr<std::uint32_t>();
    const std::int64_t birth_limit = op.birth_limit;
    const auto row_of = [=](std::uint32_t row) {
      if (row >= limit) return kNoRow;
      return births && births[row] > birth_limit ? kNoRow : row;
    };
    for_each_key<Key>(*context.pool, op,
                      [&](const KeyList<Key>& list, std::size_t begin, std::size_t end) {
                        return find_keys(list, index, row_of, begin, end);
                      });
  });
}

void hash_get_insert_kernel(const OpContext& context, const HashGetInsert& op) {
  LostKeys lost{0};
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    const RowWriter<Key> writer{op.counter.ptr<std::int64_t>(),
                                op.row_keys.ptr<Key>(),
                                op.slot_num ? op.row_slots.ptr<std::uint32_t>() : nullptr,
                                static_cast<std::int64_t>(op.row_keys.size()),
                                op.free_rows.empty() ? nullptr : op.free_rows.ptr<std::uint32_t>(),
                                op.free_rows.empty() ? 0 : op.numbered};
    if (!op.direct.empty()) {
      return direct_get_insert<Key>(
          context, op, [&](Key key, std::uint32_t slot) { return writer.next_row(key, slot); });
    }
    const HostIndex index(op.index);
    for_each_key<Key>(
        *context.pool, op, [&](const KeyList<Key>& list, std::size_t begin, std::size_t end) {
          return look_ahead(list, index, begin, end,
                            [&](std::size_t i, Key key, std::uint32_t slot, std::uint64_t hash) {
                              list.rows[i] = find_or_insert(index, key, slot, hash, writer, lost);
                            });
        });
  });
  op.report.ptr<std::int64_t>()[kReportedLost] = lost.load();
}

/// Puts a key that is not there into the foremost free place; false when there is none.
bool insert_distinct(const HostIndex& index, std::uint64_t key, std::uint64_t hash,
                     std::uint64_t value) {
  LineWalk walk = index.walk(hash);
  std::uint64_t there = 0;
  do {
    for (unsigned step = 0; step < kPlacesPerLine; ++step) {
      const std::size_t place = walk.first() + walk.place(step);
      if (index.key(place) != kFreePlace || !index.take(place, key, there)) continue;
      index.publish(place, value);
      return true;
    }
  } while (walk.next());
  return false;
}

void hash_insert_kernel(const OpContext& context, const HashInsert& op) {
  if (!op.direct.empty()) return direct_insert(context, op);
  LostKeys lost{0};
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    const HostIndex index(op.index);
    const Key* row_keys = op.row_keys.ptr<Key>();
    const auto first = static_cast<std::size_t>(op.first);
    const std::uint32_t* row_slots =
        op.row_slots.empty() ? nullptr : op.row_slots.ptr<std::uint32_t>();
    parallel_for(
        *context.pool, op.row_keys.size(), kIndexGrain, [&](std::size_t begin, std::size_t end) {
          std::uint64_t hashes[kIndexAhead];
          for (std::size_t block = begin; block < end; block += kIndexAhead) {
            const std::size_t count = std::min(kIndexAhead, end - block);
            for (std::size_t i = 0; i < count; ++i) {
              hashes[i] =
                  hash_key(widen_key(row_keys[block + i]), row_slots ? row_slots[block + i] : 0);
              index.prefetch(hashes[i]);
            }
            for (std::size_t i = 0; i < count; ++i) {
              if (row_keys[block + i] == kEmptyKey<Key>) continue;
              const std::uint64_t value = pack_value(row_slots ? row_slots[block + i] : 0,
                                                     static_cast<std::uint32_t>(first + block + i));
              if (!insert_distinct(index, key_word(row_keys[block + i]), hashes[i], value)) ++lost;
            }
          }
        });
  });
  op.report.ptr<std::int64_t>()[kReportedLost] = lost.load();
}

void hash_erase_kernel(const OpContext& context, const HashErase& op) {
  std::atomic<std::int64_t> dead{0};
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    const std::uint32_t* rows = op.rows.ptr<std::uint32_t>();
    Key* row_keys = op.row_keys.ptr<Key>();
    const std::uint32_t* row_slots =
        op.row_slots.empty() ? nullptr : op.row_slots.ptr<std::uint32_t>();
    const auto hash_of = [&](std::uint32_t row) {
      return hash_key(widen_key(row_keys[row]), row_slots ? row_slots[row] : 0);
    };
    parallel_for(*context.pool, op.rows.size(), kIndexGrain,
                 [&](std::size_t begin, std::size_t end) {
                   std::int64_t own_dead = 0;
                   std::uint64_t hashes[kIndexAhead] = {};
                   for (std::size_t block = begin; block < end; block += kIndexAhead) {
                     const std::size_t count = std::min(kIndexAhead, end - block);
                     for (std::size_t i = 0; i < count && !op.index.empty(); ++i) {
                       hashes[i] = hash_of(rows[block + i]);
                       HostIndex(op.index).prefetch(hashes[i]);
                     }
                     for (std::size_t i = 0; i < count; ++i) {
                       const std::uint32_t row = rows[block + i];
                       const Key key = std::exchange(row_keys[row], kEmptyKey<Key>);
                       if (op.index.empty() || key == kEmptyKey<Key>) continue;
                       own_dead += erase_row(HostIndex(op.index), key_word(key),
                                             row_slots ? row_slots[row] : 0, hashes[i], row);
                     }
                   }
                   dead += own_dead;
                 });
  });
  if (!op.dead.empty()) *op.dead.ptr<std::int64_t>() += dead;
}

const OpRegistration<HashErase> hash_erase_cpu{DeviceType::Cpu, &hash_erase_kernel};
const OpRegistration<HashClear> hash_clear_cpu{DeviceType::Cpu, &hash_clear_kernel};
const OpRegistration<HashGet> hash_get_cpu{DeviceType::Cpu, &hash_get_kernel};
const SeveralRegistration<HashGet> several_hash_get_cpu{DeviceType::Cpu};
const OpRegistration<HashGetInsert> hash_get_insert_cpu{DeviceType::Cpu, &hash_get_insert_kernel};
const SeveralRegistration<HashGetInsert> several_hash_get_insert_cpu{DeviceType::Cpu};
const OpRegistration<HashInsert> hash_insert_cpu{DeviceType::Cpu, &hash_insert_kernel};

}  // namespace

void HashClear::check() const {
  if (index.dtype != TensorScalarType::UInt32) check_hashed(kName, index);
}

void HashGet::check() const {
  check_lookup(*this);
  HCTR_CHECK(row_limit >= 0, kName, ": row_limit ", row_limit, " must not be negative");
  HCTR_CHECK(births.empty() || (births.dtype == TensorScalarType::UInt32 && births.contiguous() &&
                                births.size() >= static_cast<std::size_t>(row_limit)),
             kName, ": births must hold one uint32 for each of ", row_limit, " rows");
}

void HashGetInsert::check() const {
  check_lookup(*this);
  HCTR_CHECK(counter.dtype == TensorScalarType::Int64 && counter.size() == 1, kName,
             ": counter must hold one int64");
  HCTR_CHECK(row_keys.dtype == keys.dtype && row_keys.size() <= kNoRow, kName, ": row_keys hold ",
             to_string(row_keys.dtype), ", must hold less than 2^32 ", to_string(keys.dtype));
  HCTR_CHECK(slot_num == 0 || (row_slots.dtype == TensorScalarType::UInt32 &&
                               row_slots.size() >= row_keys.size()),
             kName, ": row_slots must hold one uint32 a row when slots count");
  HCTR_CHECK(row_keys.contiguous() && row_slots.contiguous() && free_rows.contiguous(), kName,
             ": row_keys, row_slots and free_rows must lie without gaps");
  HCTR_CHECK(free_rows.empty() || (free_rows.dtype == TensorScalarType::UInt32 &&
                                   static_cast<std::int64_t>(free_rows.size()) <= numbered &&
                                   numbered <= static_cast<std::int64_t>(row_keys.size())),
             kName, ": ", free_rows.size(), " free rows of ", numbered,
             " with numbers must be uint32, and row_keys hold them all");
}

void HashErase::check() const {
  with_key_type(row_keys.dtype, [](auto) {});
  HCTR_CHECK(rows.dtype == TensorScalarType::UInt32 && rows.contiguous() && row_keys.contiguous(),
             kName, ": rows must hold uint32, and lie without gaps as row_keys");
  if (index.empty()) return;
  check_hashed(kName, index);
  HCTR_CHECK(dead.dtype == TensorScalarType::Int64 && dead.size() == 1, kName,
             ": dead must hold one int64");
  HCTR_CHECK(row_slots.empty() || (row_slots.dtype == TensorScalarType::UInt32 &&
                                   row_slots.contiguous() && row_slots.size() == row_keys.size()),
             kName, ": row_slots must hold one uint32 a row, without gaps");
}

void HashInsert::check() const {
  const std::size_t capacity = check_index(kName, index, direct);
  check_report(kName, report);
  with_key_type(row_keys.dtype, [](auto) {});
  HCTR_CHECK(direct.empty() || !row_slots.empty(), kName, ": slots count in a direct index");
  const std::size_t last = static_cast<std::size_t>(first) + row_keys.size();
  HCTR_CHECK(first >= 0 && (direct.empty() ? last < capacity : last <= kRowRefused), kName,
             ": rows ", first, " + ", row_keys.size(), " do not fit into ", capacity, " places");
  HCTR_CHECK(row_slots.empty() || (row_slots.dtype == TensorScalarType::UInt32 &&
                                   row_slots.size() == row_keys.size()),
             kName, ": row_slots must hold one uint32 a row");
  HCTR_CHECK(row_keys.contiguous() && row_slots.contiguous(), kName,
             ": row_keys and row_slots must lie without gaps");
}

}  // namespace hugectr
