// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

/// Global memory in registers of 32 bits, for kernels that read every byte once.
namespace hugectr::cuda {

/// Loads kWords (1, 2 or 4) words past the first-level cache; zeros when `wanted` is false. The
/// address must be a multiple of their size, and nobody may write there while the kernel runs.
template <int kWords>
__device__ void load_words(unsigned (&to)[kWords], const void* from, bool wanted) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  const auto address = __cvta_generic_to_global(from);
  const auto flag = static_cast<int>(wanted);
#pragma unroll
  for (int i = 0; i < kWords; ++i) to[i] = 0;
  if constexpr (kWords == 4) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\n"
        "@p ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
        : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])
        : "l"(address), "r"(flag));
  } else if constexpr (kWords == 2) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %3, 0;\n"
        "@p ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2];\n}"
        : "+r"(to[0]), "+r"(to[1])
        : "l"(address), "r"(flag));
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n"
        "@p ld.global.nc.L1::no_allocate.b32 %0, [%1];\n}"
        : "+r"(to[0])
        : "l"(address), "r"(flag));
  }
}

template <int kWords>
__device__ void store_words(void* to, const unsigned (&from)[kWords]) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  const auto address = __cvta_generic_to_global(to);
  if constexpr (kWords == 4) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(from[0]),
                 "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
  } else if constexpr (kWords == 2) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(from[0]), "r"(from[1])
                 : "memory");
  } else {
    asm volatile("st.global.b32 [%0], %1;" ::"l"(address), "r"(from[0]) : "memory");
  }
}

}  // namespace hugectr::cuda
