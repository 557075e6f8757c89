// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/base/optimizer_formulas.hpp"
#include "core/cpp/ops/dense_update.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {
namespace {

// Everything a rule may use; what is absent is null. T is the type of w_lowered, float when there
// is none.
template <class T>
struct Parameters {
  float *w, *state0, *state1;
  T* lowered;
  const float *g, *lr, *unscale;
  const std::int64_t* step;
  std::size_t n;
  float inv_scale, beta1, beta2, epsilon, momentum_factor;
};

// The learning rate of this step, with Adam's bias correction.
template <Optimizer kOptimizer, class T>
__device__ float learning_rate(const Parameters<T>& p) {
  if constexpr (kOptimizer == Optimizer::Adam) {
    return adam_learning_rate(*p.lr, p.beta1, p.beta2, *p.step);
  } else {
    return *p.lr;
  }
}

template <Optimizer kOptimizer, class T>
__device__ void update(const Parameters<T>& p, float lr, float& w, float g, float& s0, float& s1) {
  if constexpr (kOptimizer == Optimizer::SGD) {
    sgd_step(w, g, lr);
  } else if constexpr (kOptimizer == Optimizer::MomentumSGD) {
    momentum_step(w, s0, g, lr, p.momentum_factor);
  } else if constexpr (kOptimizer == Optimizer::Nesterov) {
    nesterov_step(w, s0, g, lr, p.momentum_factor);
  } else if constexpr (kOptimizer == Optimizer::AdaGrad) {
    adagrad_step(w, s0, g, lr, p.epsilon);
  } else {
    adam_step(w, s0, s1, g, lr, p.beta1, p.beta2, p.epsilon);
  }
}

// kVec weights from element i * kVec on.
template <Optimizer kOptimizer, int kVec, class T>
__device__ void update_group(const Parameters<T>& p, float lr, float factor, std::size_t i) {
  constexpr int kStates = optimizer_state_count(kOptimizer);
  using Group = Pack<float, kVec>;
  Group w = reinterpret_cast<Group*>(p.w)[i];
  const Group g = reinterpret_cast<const Group*>(p.g)[i];
  Group s0{}, s1{};
  if constexpr (kStates >= 1) s0 = reinterpret_cast<Group*>(p.state0)[i];
  if constexpr (kStates >= 2) s1 = reinterpret_cast<Group*>(p.state1)[i];
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    update<kOptimizer>(p, lr, w.v[k], g.v[k] * factor, s0.v[k], s1.v[k]);
  }
  reinterpret_cast<Group*>(p.w)[i] = w;
  if constexpr (kStates >= 1) reinterpret_cast<Group*>(p.state0)[i] = s0;
  if constexpr (kStates >= 2) reinterpret_cast<Group*>(p.state1)[i] = s1;
  if constexpr (!std::is_same_v<T, float>) store_narrowed<kVec>(p.lowered + i * kVec, w);
}

// Floor: reads g, reads and writes w and the states, writes w_lowered: 12 + 8 * states bytes a
// weight, 2 more with w_lowered.
template <Optimizer kOptimizer, class T>
__global__ void __launch_bounds__(kThreads) update_kernel(Parameters<T> p, bool aligned) {
  const float unscale = p.unscale == nullptr ? 1.0f : *p.unscale;
  if (unscale == 0.0f) return;  // a skipped step
  const float factor = p.inv_scale * unscale;
  __shared__ float shared_rate;  // Adam's costs two powers in double: once a block
  if (threadIdx.x == 0) shared_rate = learning_rate<kOptimizer>(p);
  __syncthreads();
  const float lr = shared_rate;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kThreads;
  const std::size_t thread = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::size_t groups = aligned ? p.n / 4 : 0;
  for (std::size_t i = thread; i < groups; i += step) update_group<kOptimizer, 4>(p, lr, factor, i);
  for (std::size_t i = groups * 4 + thread; i < p.n; i += step) {
    update_group<kOptimizer, 1>(p, lr, factor, i);
  }
}

bool aligned_16(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

template <class T>
void update_all(const OpContext& context, const DenseUpdate& op) {
  const Parameters<T> p{.w = op.w.ptr<float>(),
                        .state0 = op.state0.empty() ? nullptr : op.state0.ptr<float>(),
                        .state1 = op.state1.empty() ? nullptr : op.state1.ptr<float>(),
                        .lowered = op.w_lowered.empty() ? nullptr : op.w_lowered.ptr<T>(),
                        .g = op.g.ptr<float>(),
                        .lr = op.lr.ptr<float>(),
                        .unscale = op.unscale.empty() ? nullptr : op.unscale.ptr<float>(),
                        .step = op.step.ptr<std::int64_t>(),
                        .n = op.w.size(),
                        .inv_scale = static_cast<float>(1.0 / op.grad_scale),
                        .beta1 = static_cast<float>(op.beta1),
                        .beta2 = static_cast<float>(op.beta2),
                        .epsilon = static_cast<float>(op.epsilon),
                        .momentum_factor = static_cast<float>(op.momentum_factor)};
  if (p.n == 0) return;
  const bool aligned = aligned_16(p.w) && aligned_16(p.g) && aligned_16(p.state0) &&
                       aligned_16(p.state1) && aligned_16(p.lowered);
  const auto run = [&](auto kernel) {
    launch(context, "dense_update", dim3(grid_for(p.n, 4 * kThreads)), dim3(kThreads), 0, kernel, p,
           aligned);
  };
  switch (op.optimizer) {
    case Optimizer::SGD:
      return run(&update_kernel<Optimizer::SGD, T>);
    case Optimizer::MomentumSGD:
      return run(&update_kernel<Optimizer::MomentumSGD, T>);
    case Optimizer::Nesterov:
      return run(&update_kernel<Optimizer::Nesterov, T>);
    case Optimizer::AdaGrad:
      return run(&update_kernel<Optimizer::AdaGrad, T>);
    case Optimizer::Adam:
      return run(&update_kernel<Optimizer::Adam, T>);
  }
}

void dense_update_kernel(const OpContext& context, const DenseUpdate& op) {
  const auto dtype = op.w_lowered.empty() ? TensorScalarType::Float32 : op.w_lowered.dtype;
  with_real_type(dtype, [&]<class T>(T) { update_all<T>(context, op); });
}

const OpRegistration<DenseUpdate> dense_update_cuda{DeviceType::Cuda, &dense_update_kernel};

}  // namespace
}  // namespace hugectr::cuda
