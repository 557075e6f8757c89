// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/sub.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

template <class T>
struct Difference {
  __device__ T operator()(T a, T b) const {
    return cuda::narrow<T>(cuda::widen(a) - cuda::widen(b));
  }
};

template <class T>
struct Negative {
  __device__ T operator()(T value) const { return cuda::narrow<T>(-cuda::widen(value)); }
};

void sub_fwd_kernel(const OpContext& ctx, const SubFwd& op) {
  cuda::with_real_type(op.y.dtype, [&]<class T>(T) {
    cuda::map_rows(ctx, SubFwd::kName, Difference<T>{}, cuda::Operand<T>{op.y},
                   cuda::Operand<T>{op.a}, cuda::Operand<T>{op.b});
  });
}

void sub_bwd_kernel(const OpContext& ctx, const SubBwd& op) {
  cuda::with_real_type(op.dy.dtype, [&]<class T>(T) {
    cuda::map_rows(ctx, SubBwd::kName, Negative<T>{}, cuda::Operand<T>{op.db},
                   cuda::Operand<T>{op.dy});
  });
}

const OpRegistration<SubFwd> sub_fwd_cuda{DeviceType::Cuda, &sub_fwd_kernel};
const OpRegistration<SubBwd> sub_bwd_cuda{DeviceType::Cuda, &sub_bwd_kernel};

}  // namespace
}  // namespace hugectr
