// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "core/cpp/ops/sigmoid.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

using cuda::Operand;

template <class T>
struct Forward {
  __device__ T operator()(T x) const {
    if constexpr (std::is_same_v<T, float>) {
      return sigmoid(x);
    } else {  // a few units in the last place of float32, far below those of T
      return cuda::narrow<T>(__fdividef(1.0f, 1.0f + __expf(-cuda::widen(x))));
    }
  }
};

template <class T>
struct Backward {
  __device__ T operator()(T y, T dy) const {
    const float p = cuda::widen(y);
    return cuda::narrow<T>(cuda::widen(dy) * p * (1.0f - p));
  }
};

void sigmoid_fwd_kernel(const OpContext& ctx, const SigmoidFwd& op) {
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) {
    cuda::map_rows(ctx, SigmoidFwd::kName, Forward<T>{}, Operand<T>{op.y}, Operand<T>{op.x});
  });
}

void sigmoid_bwd_kernel(const OpContext& ctx, const SigmoidBwd& op) {
  cuda::with_real_type(op.y.dtype, [&]<class T>(T) {
    cuda::map_rows(ctx, SigmoidBwd::kName, Backward<T>{}, Operand<T>{op.dx}, Operand<T>{op.y},
                   Operand<T>{op.dy});
  });
}

const OpRegistration<SigmoidFwd> sigmoid_fwd_cuda{DeviceType::Cuda, &sigmoid_fwd_kernel};
const OpRegistration<SigmoidBwd> sigmoid_bwd_cuda{DeviceType::Cuda, &sigmoid_bwd_kernel};

}  // namespace
}  // namespace hugectr
