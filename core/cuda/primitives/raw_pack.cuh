// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <type_traits>

#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {

/// W numbers of any type in whole registers, just as they were loaded. Of a Pack of 16-bit elements
/// the compiler gives each a register of its own, and taking them apart waits for the load: loads
/// that should be under way together then are not.
template <int W, class T>
class RawPack {
 public:
  /// One access of W elements.
  static __device__ RawPack load(const T* p) {
    RawPack raw;
    if constexpr (kSize < 4) {
      static_assert(kSize == 2);
      raw.words_.v[0] = *reinterpret_cast<const std::uint16_t*>(p);
    } else {
      raw.words_ = load_pack<kWords>(reinterpret_cast<const Word*>(p));
    }
    return raw;
  }

  /// Element k as a float.
  __device__ float operator[](int k) const {
    if constexpr (sizeof(T) == 4) {
      return words_.v[k];
    } else {
      const std::uint32_t word = words_.v[k / 2];
      return widen(T{static_cast<std::uint16_t>(k % 2 == 0 ? word : word >> 16)});
    }
  }

 private:
  using Word = std::conditional_t<sizeof(T) == 4, T, std::uint32_t>;
  static constexpr int kSize = sizeof(T) * W, kWords = (kSize + 3) / 4;
  Pack<Word, kWords> words_;
};

}  // namespace hugectr::cuda
