// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/half.hpp"
#include "core/cpp/base/scalar_type.hpp"
#include "core/cuda/primitives/rows.cuh"

/// Numbers of 32 or 16 bits as kernels compute with them: float32 inside, one rounding at the
/// store.
namespace hugectr::cuda {

__device__ inline float widen(float value) { return value; }
__device__ inline float widen(Float16 value) { return __half2float(__ushort_as_half(value.bits)); }
__device__ inline float widen(BFloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}

/// Rounds to nearest even.
template <class To>
__device__ To narrow(float value) {
  if constexpr (std::is_same_v<To, Float16>) {
    return Float16{__half_as_ushort(__float2half_rn(value))};
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return BFloat16{__bfloat16_as_ushort(__float2bfloat16_rn(value))};
  } else {
    return value;
  }
}

/// V numbers of any type as floats: one access of up to 16 bytes.
template <int V, class T>
__device__ Pack<float, V> load_widened(const T* p) {
  const Pack<T, V> raw = load_pack<V>(p);
  Pack<float, V> wide;
#pragma unroll
  for (int i = 0; i < V; ++i) wide.v[i] = widen(raw.v[i]);
  return wide;
}
template <int V, class T>
__device__ void store_narrowed(T* p, const Pack<float, V>& wide) {
  Pack<T, V> raw;
#pragma unroll
  for (int i = 0; i < V; ++i) raw.v[i] = narrow<T>(wide.v[i]);
  store_pack<V>(p, raw);
}

/// Calls f(T{}) with the element type of a k16BitFields field.
template <class F>
void with_real_type(TensorScalarType dtype, const F& f) {
  switch (dtype) {
    case TensorScalarType::Float32:
      return f(float{});
    case TensorScalarType::Float16:
      return f(Float16{});
    case TensorScalarType::BFloat16:
      return f(BFloat16{});
    default:
      throw InvalidArgument(concat("a tensor of ", to_string(dtype), " is no tensor of numbers"));
  }
}

}  // namespace hugectr::cuda
