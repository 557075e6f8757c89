// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/relu.hpp"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr {
namespace {

using cuda::Operand;

struct Forward {
  __device__ float operator()(float x) const { return relu(x); }
};

struct Backward {
  __device__ float operator()(float y, float dy) const { return relu_gradient(y, dy); }
};

void relu_fwd_kernel(const OpContext& ctx, const ReluFwd& op) {
  cuda::map_rows(ctx, ReluFwd::kName, Forward{}, Operand<float>{op.y}, Operand<float>{op.x});
}

void relu_bwd_kernel(const OpContext& ctx, const ReluBwd& op) {
  cuda::map_rows(ctx, ReluBwd::kName, Backward{}, Operand<float>{op.dx}, Operand<float>{op.y},
                 Operand<float>{op.dy});
}

const OpRegistration<ReluFwd> relu_fwd_cuda{DeviceType::Cuda, &relu_fwd_kernel};
const OpRegistration<ReluBwd> relu_bwd_cuda{DeviceType::Cuda, &relu_bwd_kernel};

}  // namespace
}  // namespace hugectr
