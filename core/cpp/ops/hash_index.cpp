// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/hash_index.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kGrain = 4096;
/// Keys whose lines are fetched before they are needed: enough to hide the latency of main memory.
constexpr std::size_t kAhead = 32;

void check_index(const char* op, const TensorRef& index_keys, const TensorRef& index_values,
                 const TensorRef& keys) {
  const std::size_t capacity = index_keys.size();
  HCTR_CHECK(capacity >= 64 && std::has_single_bit(capacity), op, ": capacity ", capacity,
             " must be a power of two of at least 64");
  HCTR_CHECK(index_values.dtype == TensorScalarType::UInt64 && index_values.size() == capacity, op,
             ": index_values must hold ", capacity, " uint64");
  HCTR_CHECK(index_keys.dtype == keys.dtype, op, ": keys hold ", to_string(keys.dtype),
             ", the index holds ", to_string(index_keys.dtype));
  with_key_type(keys.dtype, [](auto) {});
}

template <class Op>
void check_lookup(const Op& op) {
  check_index(Op::kName, op.index_keys, op.index_values, op.keys);
  HCTR_CHECK(op.rows.dtype == TensorScalarType::UInt32 && op.rows.size() == op.keys.size(),
             Op::kName, ": rows must hold ", op.keys.size(), " uint32");
  HCTR_CHECK(op.first_reserved.dtype == TensorScalarType::Int64 && op.first_reserved.size() == 1,
             Op::kName, ": first_reserved must hold one int64");
  HCTR_CHECK(op.slot_num == 0 || (op.buckets.dtype == TensorScalarType::UInt32 &&
                                  op.buckets.size() == op.keys.size()),
             Op::kName, ": buckets must hold one uint32 a key when slots count");
}

template <class Op>
SlotOfBucket slot_of_bucket(const Op& op) {
  return {static_cast<std::uint32_t>(op.slot_num), static_cast<std::uint32_t>(op.slot_stride),
          static_cast<std::uint32_t>(op.slot_first)};
}

[[noreturn]] void throw_full(const char* op) {
  throw DeviceError(concat(op, ": the index of the hash table is full"));
}

template <class Key>
struct Index {
  Key* keys;
  std::uint64_t* values;
  std::size_t capacity;

  Index(const TensorRef& k, const TensorRef& v)
      : keys(k.ptr<Key>()), values(v.ptr<std::uint64_t>()), capacity(k.size()) {}

  Key key(std::size_t place) const {
    return std::atomic_ref(keys[place]).load(std::memory_order_acquire);
  }
  /// Row and slot of a place whose key is there; waits for whoever put it there.
  std::uint64_t value(std::size_t place) const {
    std::atomic_ref ref(values[place]);
    std::uint64_t value = ref.load(std::memory_order_acquire);
    for (int spin = 0; value == kUnpublished; ++spin) {
      // The owner may have lost its core between the two writes.
      if (spin > 64) std::this_thread::yield();
      value = ref.load(std::memory_order_acquire);
    }
    return value;
  }
  /// Always inline: GCC drops calls of a function that only prefetches.
  [[gnu::always_inline]] void prefetch(std::size_t place) const {
    __builtin_prefetch(keys + place, 0, 2);
    __builtin_prefetch(values + place, 0, 2);
  }
  /// Takes a free place for key, or tells in `found` who was faster.
  bool take(std::size_t place, Key key, Key& found) const {
    found = kEmptyKey<Key>;
    return std::atomic_ref(keys[place])
        .compare_exchange_strong(found, key, std::memory_order_acq_rel, std::memory_order_acquire);
  }
  void publish(std::size_t place, std::uint64_t value) const {
    std::atomic_ref(values[place]).store(value, std::memory_order_release);
  }
};

template <class Key>
std::uint32_t find(const Index<Key>& index, Key key, std::uint32_t slot, std::uint64_t hash) {
  ProbeWalk<Key> walk(hash, index.capacity);
  do {
    const std::size_t place = walk.place();
    const Key there = index.key(place);
    if (there == kEmptyKey<Key>) return kNoRow;
    if (there == key) {
      const std::uint64_t value = index.value(place);
      if (value_slot(value) == slot) return value_row(value);
    }
  } while (walk.next());
  return kNoRow;
}

/// What a new row needs besides its place.
template <class Key>
struct RowWriter {
  std::int64_t* counter;
  Key* row_keys;
  std::uint32_t* row_slots;  // nullptr: slots do not count
  std::int64_t limit;

  std::uint32_t next_row(Key key, std::uint32_t slot) const {
    const std::int64_t row = std::atomic_ref(*counter).fetch_add(1, std::memory_order_relaxed);
    if (row >= limit) return kNoRow;
    row_keys[row] = key;
    if (row_slots) row_slots[row] = slot;
    return static_cast<std::uint32_t>(row);
  }
};

template <class Key>
std::uint32_t find_or_insert(const Index<Key>& index, Key key, std::uint32_t slot,
                             std::uint64_t hash, const RowWriter<Key>& writer) {
  ProbeWalk<Key> walk(hash, index.capacity);
  do {
    const std::size_t place = walk.place();
    Key there = index.key(place);
    if (there == kEmptyKey<Key> && index.take(place, key, there)) {
      const std::uint32_t row = writer.next_row(key, slot);
      index.publish(place, pack_value(slot, row));
      return row;
    }
    if (there == key) {
      const std::uint64_t value = index.value(place);
      if (value_slot(value) == slot) return value_row(value);
    }
  } while (walk.next());
  throw_full(HashGetInsert::kName);
}

/// rows[i] = look(key, slot, hash) for all keys, fetching lines ahead; reserved keys get kNoRow.
template <class Key, class Op, class Look>
void for_each_key(ThreadPool& pool, const Op& op, const Index<Key>& index, const Look& look) {
  const std::size_t n = op.keys.size();
  const Key* keys = op.keys.template ptr<Key>();
  const SlotOfBucket slot_of = slot_of_bucket(op);
  const std::uint32_t* buckets = slot_of.num ? op.buckets.template ptr<std::uint32_t>() : nullptr;
  std::uint32_t* rows = op.rows.template ptr<std::uint32_t>();
  std::atomic<std::size_t> first_reserved{n};
  parallel_for(pool, n, kGrain, [&](std::size_t begin, std::size_t end) {
    std::uint64_t hashes[kAhead];
    std::uint32_t slots[kAhead];
    for (std::size_t ahead = begin; ahead < end + kAhead; ++ahead) {
      if (ahead >= begin + kAhead) {
        const std::size_t i = ahead - kAhead;
        const Key key = keys[i];
        if (key != kEmptyKey<Key>) {
          rows[i] = look(key, slots[i % kAhead], hashes[i % kAhead]);
        } else {
          rows[i] = kNoRow;
          std::size_t least = first_reserved.load();
          while (i < least && !first_reserved.compare_exchange_weak(least, i)) {
          }
        }
      }
      if (ahead < end) {
        const std::uint32_t slot = buckets ? slot_of(buckets[ahead]) : 0;
        const std::uint64_t hash = hash_key(widen_key(keys[ahead]), slot);
        slots[ahead % kAhead] = slot;
        hashes[ahead % kAhead] = hash;
        index.prefetch(ProbeWalk<Key>(hash, index.capacity).place());
      }
    }
  });
  const std::size_t least = first_reserved.load();
  *op.first_reserved.template ptr<std::int64_t>() =
      least == n ? -1 : static_cast<std::int64_t>(least);
}

void hash_clear_kernel(const OpContext& context, const HashClear& op) {
  with_key_type(op.index_keys.dtype, [&]<class Key>(Key) {
    const Index<Key> index(op.index_keys, op.index_values);
    parallel_for(*context.pool, index.capacity, std::size_t{1} << 16,
                 [&](std::size_t begin, std::size_t end) {
                   std::fill(index.keys + begin, index.keys + end, kEmptyKey<Key>);
                   std::fill(index.values + begin, index.values + end, kUnpublished);
                 });
  });
}

void hash_get_kernel(const OpContext& context, const HashGet& op) {
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    const Index<Key> index(op.index_keys, op.index_values);
    const auto limit = static_cast<std::uint64_t>(op.row_limit);
    for_each_key<Key>(*context.pool, op, index,
                      [&](Key key, std::uint32_t slot, std::uint64_t hash) {
                        const std::uint32_t row = find(index, key, slot, hash);
                        return row < limit ? row : kNoRow;
                      });
  });
}

void hash_get_insert_kernel(const OpContext& context, const HashGetInsert& op) {
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    const Index<Key> index(op.index_keys, op.index_values);
    const RowWriter<Key> writer{op.counter.ptr<std::int64_t>(), op.row_keys.ptr<Key>(),
                                op.slot_num ? op.row_slots.ptr<std::uint32_t>() : nullptr,
                                static_cast<std::int64_t>(op.row_keys.size())};
    for_each_key<Key>(*context.pool, op, index,
                      [&](Key key, std::uint32_t slot, std::uint64_t hash) {
                        return find_or_insert(index, key, slot, hash, writer);
                      });
  });
}

void hash_insert_kernel(const OpContext& context, const HashInsert& op) {
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    const Index<Key> index(op.index_keys, op.index_values);
    const Key* row_keys = op.row_keys.ptr<Key>();
    const auto first = static_cast<std::size_t>(op.first);
    const std::uint32_t* row_slots =
        op.row_slots.empty() ? nullptr : op.row_slots.ptr<std::uint32_t>();
    parallel_for(
        *context.pool, op.row_keys.size(), kGrain, [&](std::size_t begin, std::size_t end) {
          std::uint64_t hashes[kAhead];
          for (std::size_t block = begin; block < end; block += kAhead) {
            const std::size_t count = std::min(kAhead, end - block);
            for (std::size_t i = 0; i < count; ++i) {
              hashes[i] =
                  hash_key(widen_key(row_keys[block + i]), row_slots ? row_slots[block + i] : 0);
              index.prefetch(ProbeWalk<Key>(hashes[i], index.capacity).place());
            }
            for (std::size_t i = 0; i < count; ++i) {
              ProbeWalk<Key> walk(hashes[i], index.capacity);
              Key there;
              // All (slot, key) are distinct, so only free places matter.
              while (index.key(walk.place()) != kEmptyKey<Key> ||
                     !index.take(walk.place(), row_keys[block + i], there)) {
                if (!walk.next()) throw_full(HashInsert::kName);
              }
              index.publish(walk.place(),
                            pack_value(row_slots ? row_slots[block + i] : 0,
                                       static_cast<std::uint32_t>(first + block + i)));
            }
          }
        });
  });
}

const OpRegistration<HashClear> hash_clear_cpu{DeviceType::Cpu, &hash_clear_kernel};
const OpRegistration<HashGet> hash_get_cpu{DeviceType::Cpu, &hash_get_kernel};
const OpRegistration<HashGetInsert> hash_get_insert_cpu{DeviceType::Cpu, &hash_get_insert_kernel};
const OpRegistration<HashInsert> hash_insert_cpu{DeviceType::Cpu, &hash_insert_kernel};

}  // namespace

void HashClear::check() const { check_index(kName, index_keys, index_values, index_keys); }

void HashGet::check() const {
  check_lookup(*this);
  HCTR_CHECK(row_limit >= 0, kName, ": row_limit ", row_limit, " must not be negative");
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
}

void HashInsert::check() const {
  check_index(kName, index_keys, index_values, row_keys);
  HCTR_CHECK(first >= 0 && first + row_keys.size() < index_keys.size(), kName, ": rows ", first,
             " + ", row_keys.size(), " do not fit into ", index_keys.size(), " places");
  HCTR_CHECK(row_slots.empty() || (row_slots.dtype == TensorScalarType::UInt32 &&
                                   row_slots.size() == row_keys.size()),
             kName, ": row_slots must hold one uint32 a row");
}

}  // namespace hugectr
