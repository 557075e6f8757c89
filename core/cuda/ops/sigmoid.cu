// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/sigmoid.hpp"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr {
namespace {

using cuda::Operand;

struct Forward {
  __device__ float operator()(float x) const { return sigmoid(x); }
};

struct Backward {
  __device__ float operator()(float y, float dy) const { return dy * y * (1.0f - y); }
};

void sigmoid_fwd_kernel(const OpContext& ctx, const SigmoidFwd& op) {
  cuda::map_rows(ctx, SigmoidFwd::kName, Forward{}, Operand<float>{op.y}, Operand<float>{op.x});
}

void sigmoid_bwd_kernel(const OpContext& ctx, const SigmoidBwd& op) {
  cuda::map_rows(ctx, SigmoidBwd::kName, Backward{}, Operand<float>{op.dx}, Operand<float>{op.y},
                 Operand<float>{op.dy});
}

const OpRegistration<SigmoidFwd> sigmoid_fwd_cuda{DeviceType::Cuda, &sigmoid_fwd_kernel};
const OpRegistration<SigmoidBwd> sigmoid_bwd_cuda{DeviceType::Cuda, &sigmoid_bwd_kernel};

}  // namespace
}  // namespace hugectr
