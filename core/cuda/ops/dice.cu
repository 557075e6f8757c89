// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/dice.hpp"
#include "core/cuda/primitives/batch_columns.cuh"
#include "core/cuda/primitives/special_functions.cuh"

namespace hugectr::cuda {
namespace {

// Elements of T. Where they have 16 bits, the gate's last bits do not show: it takes four
// instructions then instead of twenty.
template <class T>
struct DiceRule {
  static constexpr int kValues = 0;
  float alpha;

  __device__ static float gate(float h) {
    if constexpr (sizeof(T) == 2) {
      return reciprocal_of(1.0f + exp_of(-h));
    } else {
      return dice_gate(h);
    }
  }
  __device__ void column(std::size_t, float*) const {}
  __device__ float apply(float x, float h, const float*) const { return dice(x, gate(h), alpha); }
  __device__ float through(float dy, float x, float h) const {
    const float p = gate(h);
    if constexpr (sizeof(T) == 2) {
      return (1.0f - alpha) * dy * (x * fmaf(-p, p, p));  // 0, not NaN, where p is 0
    } else {
      return dy * dice_gate_gradient(x, p, alpha);
    }
  }
  __device__ float factor(std::size_t, float inv_deviation) const { return inv_deviation; }
  __device__ float gradient(float dy, float h, float left, float inv_deviation) const {
    return dy * dice_slope(gate(h), alpha) + inv_deviation * left;
  }
};

template <class Op>
auto rules_of(const Op& op) {
  return [alpha = static_cast<float>(op.alpha)]<class T>(T) { return DiceRule<T>{alpha}; };
}

void dice_fwd_kernel(const OpContext& ctx, const DiceFwd& op) {
  run_batch_forward(ctx, op, rules_of(op));
}

void dice_bwd_sums_kernel(const OpContext& ctx, const DiceBwdSums& op) {
  run_gradient_sums(ctx, op, rules_of(op), Overwrite{op.dsums.ptr<double>()});
}

void dice_bwd_kernel(const OpContext& ctx, const DiceBwd& op) {
  run_batch_gradient(ctx, op, rules_of(op));
}

const OpRegistration<DiceFwd> dice_fwd_cuda{DeviceType::Cuda, &dice_fwd_kernel};
const OpRegistration<DiceBwdSums> dice_bwd_sums_cuda{DeviceType::Cuda, &dice_bwd_sums_kernel};
const OpRegistration<DiceBwd> dice_bwd_cuda{DeviceType::Cuda, &dice_bwd_kernel};

}  // namespace
}  // namespace hugectr::cuda
