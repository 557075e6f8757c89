// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "core/cpp/memory/tensor_ref.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

/// The index of a hash table on the host: who reads it may do so beside others that insert.
namespace hugectr {

/// The index as CPU threads see it.
struct HostIndex {
  HashPlace* places;
  std::size_t capacity;

  HostIndex(HashPlace* first, std::size_t count) : places(first), capacity(count) {}
  explicit HostIndex(const TensorRef& index)
      : places(reinterpret_cast<HashPlace*>(index.ptr<std::uint64_t>())),
        capacity(index.size() / 2) {}

  LineWalk walk(std::uint64_t hash) const { return LineWalk(hash, capacity); }
  /// Key and value of a place are written once each: who sees the key waits for the value, so that
  /// what the key's writer did before needs no order here.
  std::uint64_t key(std::size_t place) const {
    return std::atomic_ref(places[place].key).load(std::memory_order_relaxed);
  }
  std::uint64_t value_now(std::size_t place) const {
    return std::atomic_ref(places[place].value).load(std::memory_order_acquire);
  }
  /// Row and slot of a place whose key is there; waits for whoever put it there.
  std::uint64_t value(std::size_t place) const {
    std::uint64_t value = value_now(place);
    for (int spin = 0; value == kUnpublished; ++spin) {
      // The owner may have lost its core between the two writes.
      if (spin > 64) std::this_thread::yield();
      value = value_now(place);
    }
    return value;
  }
  /// Always inline: GCC drops calls of a function that only prefetches.
  [[gnu::always_inline]] void prefetch(std::uint64_t hash) const { prefetch(walk(hash)); }
  [[gnu::always_inline]] void prefetch(const LineWalk& walk) const {
    __builtin_prefetch(places + walk.first(), 0, 2);
  }
  /// Takes a free place for a key, or tells in `found` who was faster.
  bool take(std::size_t place, std::uint64_t key, std::uint64_t& found) const {
    found = kFreePlace;
    return std::atomic_ref(places[place].key)
        .compare_exchange_strong(found, key, std::memory_order_acq_rel, std::memory_order_acquire);
  }
  void publish(std::size_t place, std::uint64_t value) const {
    std::atomic_ref(places[place].value).store(value, std::memory_order_release);
  }
  /// Takes a dead place for the key that it has; false when another thread was faster.
  bool revive(std::size_t place, std::uint32_t slot) const {
    std::uint64_t dead = pack_value(slot, kDeadRow);
    return std::atomic_ref(places[place].value)
        .compare_exchange_strong(dead, kUnpublished, std::memory_order_acq_rel);
  }
  void free(std::size_t place) const {
    publish(place, kUnpublished);
    std::atomic_ref(places[place].key).store(kFreePlace, std::memory_order_release);
  }
};

/// What a line shows of a key; one bit a place. Without branches: they would be guessed wrong every
/// other time, which costs more than the rest.
struct LineBits {
  unsigned match = 0, free = 0;

  LineBits(const HostIndex& index, std::size_t first, std::uint64_t key) {
#pragma GCC unroll 4
    for (unsigned place = 0; place < kPlacesPerLine; ++place) {
      const std::uint64_t there = index.key(first + place);
      match |= static_cast<unsigned>(there == key) << place;
      free |= static_cast<unsigned>(there == kFreePlace) << place;
    }
  }
};

/// Row of a key, wherever it lies; kDeadRow or kNoRow without one.
[[gnu::noinline]] inline std::uint32_t walk_to(const HostIndex& index, std::uint64_t key,
                                               std::uint32_t slot, std::uint64_t hash) {
  LineWalk walk = index.walk(hash);
  do {
    const LineBits line(index, walk.first(), key);
    for (unsigned left = line.match; left != 0; left &= left - 1) {
      const std::uint64_t value =
          index.value(walk.first() + static_cast<unsigned>(std::countr_zero(left)));
      if (value_slot(value) == slot) return value_row(value);
    }
    if (line.free != 0) return kNoRow;
  } while (walk.next());
  return kNoRow;
}

/// Value of the place of a key's first line that has the key, or kUnpublished. All places are
/// compared.
inline std::uint64_t value_in_first_line(const HostIndex& index, std::uint64_t key,
                                         std::uint64_t hash) {
  const HostIndex line{index.places + index.walk(hash).first(), kPlacesPerLine};
  std::uint64_t value = kUnpublished;
#pragma GCC unroll 4
  for (std::size_t place = 0; place < kPlacesPerLine; ++place) {
    const std::uint64_t there = line.value_now(place);
    value = line.key(place) == key ? there : value;
  }
  return value;
}

/// Whether the place of a row became dead, not free. Other threads may take rows out too: a full
/// line stays full then, and one that is not stays so.
inline bool erase_row(const HostIndex& index, std::uint64_t key, std::uint32_t slot,
                      std::uint64_t hash, std::uint32_t row) {
  LineWalk walk = index.walk(hash);
  do {
    bool full = true;
    std::size_t own = index.capacity;
    for (std::size_t place = walk.first(); place < walk.first() + kPlacesPerLine; ++place) {
      const std::uint64_t there = index.key(place);
      full &= there != kFreePlace;
      if (there == key && value_row(index.value_now(place)) == row) own = place;
    }
    if (own == index.capacity) continue;
    if (full) {
      index.publish(own, pack_value(slot, kDeadRow));
    } else {
      index.free(own);
    }
    return full;
  } while (walk.next());
  return false;
}

/// Keys that are not in their first line, an eighth of them in an index two thirds full: their
/// next line is fetched while others are looked up, since it lies anywhere.
template <class Key>
class LateKeys {
 public:
  explicit LateKeys(const HostIndex& index) : index_(index) {}

  /// Calls done(i, row) for a key that came before where there is no room.
  template <class Done>
  void add(std::size_t i, Key key, std::uint32_t slot, std::uint64_t hash, const Done& done) {
    LineWalk walk = index_.walk(hash);
    if (walk.next()) index_.prefetch(walk);
    if (count_ - first_ == kRoom) finish_first(done);
    keys_[count_++ % kRoom] = {i, key, slot, hash};
  }
  template <class Done>
  void finish(const Done& done) {
    while (first_ < count_) finish_first(done);
  }

 private:
  static constexpr std::size_t kRoom = 16;
  struct Late {
    std::size_t i;
    Key key;
    std::uint32_t slot;
    std::uint64_t hash;
  };
  template <class Done>
  void finish_first(const Done& done) {
    const Late& late = keys_[first_++ % kRoom];
    done(late.i, walk_to(index_, key_word(late.key), late.slot, late.hash));
  }

  const HostIndex& index_;
  Late keys_[kRoom];
  std::size_t first_ = 0, count_ = 0;
};

}  // namespace hugectr
