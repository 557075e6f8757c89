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

}  // namespace hugectr::cuda
