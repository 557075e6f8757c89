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

/// Sum of the eight lanes, always in the same order.
inline float sum_lanes(Lanes v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

}  // namespace hugectr
