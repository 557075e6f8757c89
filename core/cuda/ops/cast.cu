// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/cast.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

template <class From, class To>
struct Convert {
  __device__ To operator()(From value) const { return cuda::narrow<To>(cuda::widen(value)); }
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
