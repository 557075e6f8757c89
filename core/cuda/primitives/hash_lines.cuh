// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/ops/loops/hash_probe.hpp"

/// Lines of the index of a hash table (layout: core/cpp/ops/loops/hash_probe.hpp) on the device.
///
/// What limits a lookup is the number of requests to the L2 cache, not their bytes. So four
/// neighbouring lanes, a tile, read a line of 64 bytes with one instruction, and a tile's four keys
/// are read one after the other without waiting in between: a warp looks at 32 lines at a time.
namespace hugectr::cuda {

/// The places of an op's index, and int64 as atomics have them.
inline HashPlace* places_of(const char* op, const TensorRef& index) {
  auto* places = reinterpret_cast<HashPlace*>(index.ptr<std::uint64_t>());
  HCTR_CHECK(reinterpret_cast<std::uintptr_t>(places) % sizeof(HashPlace) == 0, op,
             ": index must start at a multiple of ", sizeof(HashPlace), " bytes");
  return places;
}

inline unsigned long long* words_of(const TensorRef& numbers) {
  return reinterpret_cast<unsigned long long*>(numbers.ptr<std::int64_t>());
}

inline constexpr unsigned kFullWarp = 0xFFFFFFFFu;
/// Line of a lane that has no key at the moment.
inline constexpr std::uint32_t kNoLine = 0xFFFFFFFFu;

/// The two words of a place. Shared: other threads of the same kernel may be writing it, so the L1
/// cache, which would not see that, is passed by.
template <bool kShared>
__device__ inline HashPlace load_place(const HashPlace* place) {
  HashPlace words;
  if constexpr (kShared) {
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(words.key), "=l"(words.value)
                 : "l"(place)
                 : "memory");
  } else {
    const ulonglong2 both = __ldg(reinterpret_cast<const ulonglong2*>(place));
    words = {both.x, both.y};
  }
  return words;
}

/// Writes the value word of a place that the thread has taken. A value says all by itself: no other
/// memory is read on the strength of it before the kernel ends, so relaxed order is enough.
__device__ inline void publish(HashPlace* place, std::uint64_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(&place->value), "l"(value) : "memory");
}

/// Puts a key word into the place if that is free.
__device__ inline bool take(HashPlace* place, std::uint64_t key) {
  return atomicCAS(reinterpret_cast<unsigned long long*>(&place->key), kFreePlace, key) ==
         kFreePlace;
}

/// Takes a dead place for the key that it has; false when another thread was faster.
__device__ inline bool revive(HashPlace* place, std::uint32_t slot) {
  const std::uint64_t dead = pack_value(slot, kDeadRow);
  return atomicCAS(reinterpret_cast<unsigned long long*>(&place->value), dead, kUnpublished) ==
         dead;
}

/// What a lane learns about the line of its key; one bit a place.
struct LineView {
  unsigned match = 0;       ///< holds the key (and slot), or holds it without a value yet
  unsigned empty = 0;       ///< is free
  std::uint64_t value = 0;  ///< value word of the first match
};

/// Whether a place may be the one of (key, slot).
template <bool kSlots>
__device__ inline bool matches(const HashPlace& there, std::uint64_t key, std::uint32_t slot) {
  if (there.key != key) return false;
  if constexpr (!kSlots) return true;
  return value_slot(there.value) == slot || there.value == kUnpublished;
}

/// All lanes of a warp call this together, each with its own key and line.
template <bool kShared, bool kSlots>
__device__ inline LineView look(const HashPlace* places, std::uint64_t key, std::uint32_t slot,
                                std::uint32_t line) {
  const unsigned part = threadIdx.x & 3, tile = threadIdx.x & 28;
  HashPlace seen[4];
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    const std::uint32_t l = __shfl_sync(kFullWarp, line, static_cast<int>(tile + k));
    seen[k] = {kFreePlace, kUnpublished};
    if (l != kNoLine) {
      seen[k] = load_place<kShared>(places + std::size_t{l} * kPlacesPerLine + part);
    }
  }
  LineView view;
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    const int owner = static_cast<int>(tile + k);
    const std::uint64_t wanted = __shfl_sync(kFullWarp, key, owner);
    const std::uint32_t its_slot = kSlots ? __shfl_sync(kFullWarp, slot, owner) : 0;
    const bool is_match = matches<kSlots>(seen[k], wanted, its_slot);
    const unsigned match = __ballot_sync(kFullWarp, is_match) >> tile & 15;
    const unsigned empty = __ballot_sync(kFullWarp, seen[k].key == kFreePlace) >> tile & 15;
    const int first = match != 0 ? __ffs(static_cast<int>(match)) - 1 : 0;
    const std::uint64_t value =
        __shfl_sync(kFullWarp, seen[k].value, static_cast<int>(tile) + first);
    if (part == k) view = {match, empty, value};
  }
  return view;
}

/// The same by one thread alone.
template <bool kSlots>
__device__ inline LineView look_alone(const HashPlace* places, std::uint64_t key,
                                      std::uint32_t slot, std::uint32_t line) {
  HashPlace seen[4];
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    seen[k] = load_place<false>(places + std::size_t{line} * kPlacesPerLine + k);
  }
  LineView view;
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    if (matches<kSlots>(seen[k], key, slot)) {
      view.match |= 1u << k;
      view.value = seen[k].value;
    }
    if (seen[k].key == kFreePlace) view.empty |= 1u << k;
  }
  return view;
}

/// The place that is tried first, of those in a non-zero mask of a line.
__device__ inline std::size_t foremost(const LineWalk& walk, unsigned places) {
  const unsigned start = walk.place(0);
  const unsigned turned = (places >> start | places << (4 - start)) & 15;
  return walk.first() + walk.place(static_cast<unsigned>(__ffs(static_cast<int>(turned))) - 1);
}

}  // namespace hugectr::cuda
