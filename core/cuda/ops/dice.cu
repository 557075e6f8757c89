// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/dice.hpp"
#include "core/cuda/primitives/batch_columns.cuh"
#include "core/cuda/primitives/special_functions.cuh"

namespace hugectr::cuda {
namespace {

// Elements of T. Where they have 16 bits, the gate's last bits do not show: two of them take three
// special functions and nine other instructions then, instead of twenty each.
template <class T>
struct DiceRule {
  static constexpr int kValues = 0;
  static constexpr bool kGainIsInverseDeviation = true;
  float alpha;

  // The gates of V elements.
  template <int V>
  __device__ Pack<float, V> bends(const Pack<float, V>& h) const {
    Pack<float, V> p;
    if constexpr (sizeof(T) == 2) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        // A gate below 2^-60 is that: products of two of these stay finite.
        p.v[i] = 1.0f + exp2_of(min_or_nan(h.v[i] * -kLog2E, 60.0f));
      }
      reciprocals_of(p.v);
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) p.v[i] = dice_gate(h.v[i]);
    }
    return p;
  }
  __device__ void column(std::size_t, float*) const {}
  __device__ float apply(float x, float p, const float*) const {
    if constexpr (sizeof(T) == 2) {
      return x * dice_slope(p, alpha);
    } else {
      return dice(x, p, alpha);
    }
  }
  // p (1 - p), rounded once: 0, not NaN, where p is. What dice_gate_gradient() has besides is
  // factor().
  __device__ float through(float dy, float x, float p) const { return x * fmaf(-p, p, p) * dy; }
  __device__ __host__ float factor() const { return 1.0f - alpha; }
  __device__ float gain(std::size_t, float inv_deviation) const { return inv_deviation; }
  __device__ float beside(float dy, float p) const { return dy * dice_slope(p, alpha); }
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
