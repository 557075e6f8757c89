// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "core/cpp/ops/cast.hpp"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr {
namespace {

__device__ float widen(float value) { return value; }
__device__ float widen(Float16 value) { return __half2float(__ushort_as_half(value.bits)); }
__device__ float widen(BFloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}

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

template <class From, class To>
struct Convert {
  __device__ To operator()(From value) const { return narrow<To>(widen(value)); }
};

template <class From, class To>
void cast_elements(const OpContext& ctx, const Cast& op) {
  cuda::map_rows(ctx, Cast::kName, Convert<From, To>{}, cuda::Operand<To>{op.y},
                 cuda::Operand<From>{op.x});
}

template <class From>
void cast_from(const OpContext& ctx, const Cast& op) {
  switch (op.y.dtype) {
    case TensorScalarType::Float16:
      return cast_elements<From, Float16>(ctx, op);
    case TensorScalarType::BFloat16:
      return cast_elements<From, BFloat16>(ctx, op);
    default:
      return cast_elements<From, float>(ctx, op);
  }
}

void cast_kernel(const OpContext& ctx, const Cast& op) {
  switch (op.x.dtype) {
    case TensorScalarType::Float16:
      return cast_from<Float16>(ctx, op);
    case TensorScalarType::BFloat16:
      return cast_from<BFloat16>(ctx, op);
    default:
      return cast_from<float>(ctx, op);
  }
}

const OpRegistration<Cast> cast_cuda{DeviceType::Cuda, &cast_kernel};

}  // namespace
}  // namespace hugectr
