// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstring>

/// Eight floats as one value, for CPU kernels that must keep a block of sums in registers: the
/// compiler turns them into whatever vectors the target has. GCC and Clang only.
namespace hugectr {

using Lanes = float __attribute__((vector_size(32)));
inline constexpr std::size_t kLanes = 8;

inline Lanes load_lanes(const float* p) {
  Lanes v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline void store_lanes(float* p, Lanes v) { std::memcpy(p, &v, sizeof v); }

inline Lanes broadcast(float x) { return Lanes{x, x, x, x, x, x, x, x}; }

/// Sum of the eight lanes, always in the same order, which is that of sum_each(): a row has the
/// same bits in a block of rows and behind the last of them.
inline float sum_lanes(Lanes v) {
  return ((v[0] + v[2]) + (v[1] + v[3])) + ((v[4] + v[6]) + (v[5] + v[7]));
}

/// Lane i of the result is the sum of the lanes of v[i], always in the same order.
inline Lanes sum_each(const Lanes (&v)[8]) {
  Lanes pairs[4], quads[2];
  for (int i = 0; i < 4; ++i) {
    const Lanes a = v[2 * i], b = v[2 * i + 1];
    pairs[i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13) +
               __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 2; ++i) {
    const Lanes a = pairs[2 * i], b = pairs[2 * i + 1];
    quads[i] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
               __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  }
  return __builtin_shufflevector(quads[0], quads[1], 0, 1, 2, 3, 8, 9, 10, 11) +
         __builtin_shufflevector(quads[0], quads[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

}  // namespace hugectr
