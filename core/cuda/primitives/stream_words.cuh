// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

/// Memory in registers of 32 bits, for kernels that read and write every byte once.
namespace hugectr::cuda {

/// Loads kWords (1, 2 or 4) words past the first-level cache. The address must be a multiple of
/// their size, and nobody may write there while the kernel runs.
template <int kWords>
__device__ void load_words(unsigned (&to)[kWords], const void* from) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  const auto address = __cvta_generic_to_global(from);
  if constexpr (kWords == 4) {
    asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(address));
  } else if constexpr (kWords == 2) {
    asm volatile("ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "l"(address));
  } else {
    asm volatile("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(to[0]) : "l"(address));
  }
}

/// The same when `wanted`, else zeros.
template <int kWords>
__device__ void load_words_if(unsigned (&to)[kWords], const void* from, bool wanted) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) to[i] = 0;
  if (wanted) load_words(to, from);
}

/// Stores kWords (1, 2 or 4) words when `wanted`, without a branch.
template <int kWords>
__device__ void store_words_if(void* to, const unsigned (&from)[kWords], bool wanted) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  const auto address = __cvta_generic_to_global(to);
  const int flag = wanted;
  if constexpr (kWords == 4) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\n"
        "@p st.global.v4.b32 [%0], {%1, %2, %3, %4};\n}" ::"l"(address),
        "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]), "r"(flag)
        : "memory");
  } else if constexpr (kWords == 2) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %3, 0;\n@p st.global.v2.b32 [%0], {%1, %2};\n}" ::"l"(
            address),
        "r"(from[0]), "r"(from[1]), "r"(flag)
        : "memory");
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p st.global.b32 [%0], %1;\n}" ::"l"(address),
        "r"(from[0]), "r"(flag)
        : "memory");
  }
}

/// An address in shared memory as the functions below take it.
__device__ inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

/// Stores the low half of a word in shared memory.
__device__ inline void store_shared_half(unsigned to, unsigned value) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(to), "h"(static_cast<unsigned short>(value))
               : "memory");
}
/// The same when `wanted`, without a branch.
__device__ inline void store_shared_half_if(unsigned to, unsigned value, bool wanted) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p st.shared.b16 [%0], %1;\n}" ::"r"(to),
               "h"(static_cast<unsigned short>(value)), "r"(static_cast<int>(wanted))
               : "memory");
}

/// Starts to copy 16 bytes from global to shared memory when `wanted`. Part of the group of copies
/// that the next __pipeline_commit() ends.
__device__ inline void copy_ahead_if(unsigned to, const void* from, bool wanted) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p cp.async.cg.shared.global [%0], [%1], 16;\n}" ::
          "r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(static_cast<int>(wanted))
      : "memory");
}

}  // namespace hugectr::cuda
