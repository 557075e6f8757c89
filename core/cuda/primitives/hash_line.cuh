// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/ops/loops/hash_probe.hpp"

/// Lines of the index of a hash table (layout: core/cpp/ops/loops/hash_probe.hpp) on the device:
/// one thread reads the 64 bytes of a line at once and looks at all of its keys.
namespace hugectr::cuda {

/// One bit a place of a line.
struct LineMasks {
  unsigned match = 0;  ///< holds the key
  unsigned empty = 0;  ///< is free
};

/// Sixteen bytes of keys. Shared: other threads of the same kernel may be swapping keys in, so the
/// L1 cache, which would not see that, is passed by.
template <bool kShared>
__device__ inline void load_keys(const std::int64_t* p, std::int64_t (&keys)[2]) {
  if constexpr (kShared) {
    asm volatile("ld.relaxed.gpu.v2.u64 {%0, %1}, [%2];"
                 : "=l"(keys[0]), "=l"(keys[1])
                 : "l"(p)
                 : "memory");
  } else {
    const longlong2 pair = __ldg(reinterpret_cast<const longlong2*>(p));
    keys[0] = pair.x;
    keys[1] = pair.y;
  }
}
template <bool kShared>
__device__ inline void load_keys(const std::uint32_t* p, std::uint32_t (&keys)[4]) {
  if constexpr (kShared) {
    asm volatile("ld.relaxed.gpu.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(keys[0]), "=r"(keys[1]), "=r"(keys[2]), "=r"(keys[3])
                 : "l"(p)
                 : "memory");
  } else {
    const uint4 four = __ldg(reinterpret_cast<const uint4*>(p));
    keys[0] = four.x;
    keys[1] = four.y;
    keys[2] = four.z;
    keys[3] = four.w;
  }
}

/// Compares a key with every place of a line.
template <bool kShared, class Key>
__device__ LineMasks probe_line(const Key* line, Key key) {
  constexpr unsigned kPiece = 16 / sizeof(Key);
  Key keys[4][kPiece];
#pragma unroll
  for (unsigned piece = 0; piece < 4; ++piece) {
    load_keys<kShared>(line + piece * kPiece, keys[piece]);
  }
  LineMasks masks;
#pragma unroll
  for (unsigned piece = 0; piece < 4; ++piece) {
#pragma unroll
    for (unsigned k = 0; k < kPiece; ++k) {
      const unsigned bit = 1u << (piece * kPiece + k);
      if (keys[piece][k] == key) masks.match |= bit;
      if (keys[piece][k] == kEmptyKey<Key>) masks.empty |= bit;
    }
  }
  return masks;
}

/// The lines of one key, in the order ProbeWalk visits them.
template <class Key>
class LineWalk {
 public:
  __device__ LineWalk(std::uint64_t hash, std::size_t capacity)
      : mask_(capacity / kKeysPerLine<Key> - 1),
        line_(hash & mask_),
        start_(static_cast<unsigned>(hash >> 58) & (kWidth - 1)) {}
  /// First place of the present line.
  __device__ std::size_t first() const { return line_ * kWidth; }
  /// The place in the line that ProbeWalk comes to first, of those in a non-zero mask.
  __device__ unsigned foremost(unsigned places) const {
    const unsigned turned = (places >> start_ | places << (kWidth - start_)) & ((1u << kWidth) - 1);
    return (static_cast<unsigned>(__ffs(static_cast<int>(turned))) - 1 + start_) & (kWidth - 1);
  }
  /// False when every line has been tried.
  __device__ bool next() {
    line_ = (line_ + 1) & mask_;
    return ++tried_ <= mask_;
  }

 private:
  static constexpr unsigned kWidth = kKeysPerLine<Key>;
  std::size_t mask_, line_;
  unsigned start_;
  std::size_t tried_ = 0;
};

/// Puts key into the place if that is free; returns what was there: kEmptyKey when it was.
__device__ inline std::int64_t swap_in(std::int64_t* place, std::int64_t key) {
  return static_cast<std::int64_t>(
      atomicCAS(reinterpret_cast<unsigned long long*>(place),
                static_cast<unsigned long long>(kEmptyKey<std::int64_t>),
                static_cast<unsigned long long>(key)));
}
__device__ inline std::uint32_t swap_in(std::uint32_t* place, std::uint32_t key) {
  return atomicCAS(place, kEmptyKey<std::uint32_t>, key);
}

}  // namespace hugectr::cuda
