// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the special-function units give in one instruction, without the ones around it that care
/// for numbers below 2^-126: those are 0 here.
namespace hugectr::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;

/// 2^x, of a relative error of 2^-22; 0 for minus infinity.
__device__ inline float exp2_of(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// e^x, of a relative error of 2^-22 + |x| 2^-24.
__device__ inline float exp_of(float x) { return exp2_of(x * kLog2E); }

/// 1 / x, of a relative error of 2^-23; 0 for infinity.
__device__ inline float reciprocal_of(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// The smaller one; NaN where x is.
__device__ inline float min_or_nan(float x, float most) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(most));
  return result;
}

/// The reciprocals of all, of a relative error of 2^-22, two at the price of one; products of
/// neighbours must be finite.
template <int V>
__device__ void reciprocals_of(float (&values)[V]) {
  if constexpr (V == 1) {
    values[0] = reciprocal_of(values[0]);
  } else {
    static_assert(V % 2 == 0);
#pragma unroll
    for (int i = 0; i < V; i += 2) {
      const float first = values[i], both = reciprocal_of(first * values[i + 1]);
      values[i] = both * values[i + 1];
      values[i + 1] = both * first;
    }
  }
}

}  // namespace hugectr::cuda
