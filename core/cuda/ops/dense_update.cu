// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/ops/dense_update.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {
namespace {

// Everything but the rule; what is absent is null. T is the type of w_16, float when there
// is none.
template <class T>
struct Parameters {
  float *w, *state0, *state1;
  T* rounded;
  const float *g, *lr, *unscale;
  const std::int64_t* step;
  std::size_t n;
  float inv_scale;
  Adjustment adjust;
  bool adjusts;
};

// kVec weights from element i * kVec on.
template <int kVec, class T, class Rule>
__device__ void update_group(const Parameters<T>& p, const Rule& rule, float rate, float factor,
                             float kept, std::size_t i) {
  constexpr std::size_t kStates = kStateCount<Rule>;
  using Group = Pack<float, kVec>;
  Group w = reinterpret_cast<Group*>(p.w)[i];
  Group g = reinterpret_cast<const Group*>(p.g)[i];
  Group s0{}, s1{};
  if constexpr (kStates >= 1) s0 = reinterpret_cast<Group*>(p.state0)[i];
  if constexpr (kStates >= 2) s1 = reinterpret_cast<Group*>(p.state1)[i];
#pragma unroll
  for (int k = 0; k < kVec; ++k) g.v[k] *= factor;
  if (p.adjusts) {
#pragma unroll
    for (int k = 0; k < kVec; ++k) p.adjust(kept, w.v[k], g.v[k]);
  }
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    single_step(rule, rate, w.v[k], s0.v[k], s1.v[k], g.v[k]);
  }
  reinterpret_cast<Group*>(p.w)[i] = w;
  if constexpr (kStates >= 1) reinterpret_cast<Group*>(p.state0)[i] = s0;
  if constexpr (kStates >= 2) reinterpret_cast<Group*>(p.state1)[i] = s1;
  if constexpr (!std::is_same_v<T, float>) store_narrowed<kVec>(p.rounded + i * kVec, w);
}

// Floor: reads g, reads and writes w and the states, writes w_16: 12 + 8 * states bytes a
// weight, 2 more with w_16.
template <class T, class Rule>
__global__ void __launch_bounds__(kThreads)
    update_kernel(Parameters<T> p, Rule rule, bool aligned) {
  const float unscale = p.unscale == nullptr ? 1.0f : *p.unscale;
  if (unscale == 0.0f) return;  // a skipped step
  const float factor = p.inv_scale * unscale;
  __shared__ float shared_rate;  // Adam's costs two powers in double: once a block
  if (threadIdx.x == 0) shared_rate = rate_of(rule, *p.lr, *p.step);
  __syncthreads();
  const float rate = shared_rate, kept = p.adjust.kept(*p.lr);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kThreads;
  const std::size_t thread = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::size_t groups = aligned ? p.n / 4 : 0;
  for (std::size_t i = thread; i < groups; i += step) {
    update_group<4>(p, rule, rate, factor, kept, i);
  }
  for (std::size_t i = groups * 4 + thread; i < p.n; i += step) {
    update_group<1>(p, rule, rate, factor, kept, i);
  }
}

bool aligned_16(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

template <class T>
void update_all(const OpContext& context, const DenseUpdate& op) {
  const Parameters<T> p{.w = op.w.ptr<float>(),
                        .state0 = op.state0.empty() ? nullptr : op.state0.ptr<float>(),
                        .state1 = op.state1.empty() ? nullptr : op.state1.ptr<float>(),
                        .rounded = op.w_16.empty() ? nullptr : op.w_16.ptr<T>(),
                        .g = op.g.ptr<float>(),
                        .lr = op.lr.ptr<float>(),
                        .unscale = op.unscale.empty() ? nullptr : op.unscale.ptr<float>(),
                        .step = op.step.ptr<std::int64_t>(),
                        .n = op.w.size(),
                        .inv_scale = static_cast<float>(1.0 / op.grad_scale),
                        .adjust = adjustment_of(op.params),
                        .adjusts = adjustment_of(op.params).any()};
  if (p.n == 0) return;
  const bool aligned = aligned_16(p.w) && aligned_16(p.g) && aligned_16(p.state0) &&
                       aligned_16(p.state1) && aligned_16(p.rounded);
  with_optimizer(op.params, [&]<class Rule>(const Rule& rule) {
    launch(context, "dense_update", dim3(grid_for(p.n, 4 * kThreads)), dim3(kThreads), 0,
           &update_kernel<T, Rule>, p, rule, aligned);
  });
}

void dense_update_kernel(const OpContext& context, const DenseUpdate& op) {
  const auto dtype = op.w_16.empty() ? TensorScalarType::Float32 : op.w_16.dtype;
  with_real_type(dtype, [&]<class T>(T) { update_all<T>(context, op); });
}

const OpRegistration<DenseUpdate> dense_update_cuda{DeviceType::Cuda, &dense_update_kernel};

}  // namespace
}  // namespace hugectr::cuda
