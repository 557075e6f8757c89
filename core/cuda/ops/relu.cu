// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/relu.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

using cuda::Operand;

template <class T>
struct Forward {
  __device__ T operator()(T x) const { return cuda::narrow<T>(relu(cuda::widen(x))); }
};

template <class T>
struct Backward {
  __device__ T operator()(T y, T dy) const {
    return cuda::narrow<T>(relu_gradient(cuda::widen(y), cuda::widen(dy)));
  }
};

void relu_fwd_kernel(const OpContext& ctx, const ReluFwd& op) {
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) {
    cuda::map_rows(ctx, ReluFwd::kName, Forward<T>{}, Operand<T>{op.y}, Operand<T>{op.x});
  });
}

void relu_bwd_kernel(const OpContext& ctx, const ReluBwd& op) {
  cuda::with_real_type(op.y.dtype, [&]<class T>(T) {
    cuda::map_rows(ctx, ReluBwd::kName, Backward<T>{}, Operand<T>{op.dx}, Operand<T>{op.y},
                   Operand<T>{op.dy});
  });
}

const OpRegistration<ReluFwd> relu_fwd_cuda{DeviceType::Cuda, &relu_fwd_kernel};
const OpRegistration<ReluBwd> relu_bwd_cuda{DeviceType::Cuda, &relu_bwd_kernel};

}  // namespace
}  // namespace hugectr
