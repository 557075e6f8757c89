// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include "core/cpp/base/half.hpp"

/// Products of small matrices by one warp on tensor cores, 16 bits in, float32 out. Below, lane =
/// 4 g + t; a register of 16-bit numbers holds two, the first in the low half.
namespace hugectr::cuda {

/// c += a b for a 16 x 16 of T and b 16 x 8. Lane (g, t) holds
///   a[0]: row g, columns 2t, 2t + 1;  a[1]: row g + 8, the same;  a[2], a[3]: columns 8 further
///   b0: column g, rows 2t, 2t + 1;    b1: rows 8 further
///   c[0], c[1]: row g, columns 2t, 2t + 1;  c[2], c[3]: row g + 8
template <class T>
__device__ void multiply_add_16x8x16(float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                     unsigned a3, unsigned b0, unsigned b1) {
  static_assert(std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>);
  if constexpr (std::is_same_v<T, Float16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

/// The four 8 x 8 quarters of a 16 x 16 matrix in shared memory as `a` above: lane l passes the
/// 16 bytes at row l % 16, column 8 (l / 16).
__device__ inline void load_matrix(unsigned (&a)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// The transpose of such a matrix: lane l passes row l % 8 + 8 (l / 16), column 8 (l / 8 % 2).
__device__ inline void load_matrix_transposed(unsigned (&a)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// Two numbers rounded to T in one register.
template <class T>
__device__ unsigned narrow_two(float low, float high) {
  unsigned two;
  if constexpr (std::is_same_v<T, Float16>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  }
  return two;
}

/// The numbers at one place of two registers as one: both low halves, or both high halves.
__device__ inline unsigned low_halves(unsigned first, unsigned second) {
  return __byte_perm(first, second, 0x5410);
}
__device__ inline unsigned high_halves(unsigned first, unsigned second) {
  return __byte_perm(first, second, 0x7632);
}

}  // namespace hugectr::cuda
