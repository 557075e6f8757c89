// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/dense_update.hpp"

#include <algorithm>

#include "core/cpp/base/optimizer_formulas.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void DenseUpdate::check() const {
  check_packed_float(kName, "w", w, {w.size()});
  check_packed_float(kName, "g", g, w.shape);
  check_packed_float(kName, "lr", lr, {1});
  HCTR_CHECK(step.dtype == TensorScalarType::Int64 && step.size() == 1, kName,
             ": step must hold one int64, found ", to_string(step.dtype), " ",
             to_string(step.shape));
  HCTR_CHECK(grad_scale > 0.0, kName, ": grad_scale is ", grad_scale, ", must be positive");
  const int states = optimizer_state_count(optimizer);
  HCTR_CHECK(state0.empty() == (states < 1) && state1.empty() == (states < 2), kName,
             ": this optimizer has ", states, " state tensors; give exactly these");
  if (states >= 1) check_packed_float(kName, "state0", state0, w.shape);
  if (states >= 2) check_packed_float(kName, "state1", state1, w.shape);
  if (!unscale.empty()) check_packed_float(kName, "unscale", unscale, {1});
  if (!w_lowered.empty()) {
    check_real(kName, "w_lowered", w_lowered);
    HCTR_CHECK(w_lowered.shape == w.shape && w_lowered.contiguous(), kName,
               ": w_lowered has shape ", to_string(w_lowered.shape), ", must be contiguous ",
               to_string(w.shape));
  }
}

namespace {

// rule(weight, gradient, state 0, state 1) on every element; absent states point at nothing and
// the rule does not touch them.
template <class Rule>
void update_all(const OpContext& ctx, const DenseUpdate& op, const Rule& rule) {
  const float unscale = op.unscale.empty() ? 1.0f : *op.unscale.ptr<float>();
  if (unscale == 0.0f) return;
  const float factor = static_cast<float>(1.0 / op.grad_scale) * unscale;
  parallel_for(*ctx.pool, op.w.size(), kSpanElements, [&](std::size_t begin, std::size_t end) {
    const std::size_t n = end - begin;
    float* __restrict w = op.w.ptr<float>() + begin;
    const float* __restrict g = op.g.ptr<float>() + begin;
    float* __restrict s0 = op.state0.empty() ? nullptr : op.state0.ptr<float>() + begin;
    float* __restrict s1 = op.state1.empty() ? nullptr : op.state1.ptr<float>() + begin;
    for (std::size_t i = 0; i < n; ++i) rule(w, s0, s1, i, g[i] * factor);
    if (op.w_lowered.empty()) return;
    float* lowered = op.w_lowered.ptr<float>() + begin;  // op.hpp rounds it
    std::copy(w, w + n, lowered);
  });
}

void dense_update_kernel(const OpContext& ctx, const DenseUpdate& op) {
  const float lr = *op.lr.ptr<float>();
  const auto factor = static_cast<float>(op.momentum_factor);
  const auto epsilon = static_cast<float>(op.epsilon);
  switch (op.optimizer) {
    case Optimizer::SGD:
      return update_all(ctx, op, [=](float* w, float*, float*, std::size_t i, float g) {
        sgd_step(w[i], g, lr);
      });
    case Optimizer::MomentumSGD:
      return update_all(ctx, op, [=](float* w, float* m, float*, std::size_t i, float g) {
        momentum_step(w[i], m[i], g, lr, factor);
      });
    case Optimizer::Nesterov:
      return update_all(ctx, op, [=](float* w, float* m, float*, std::size_t i, float g) {
        nesterov_step(w[i], m[i], g, lr, factor);
      });
    case Optimizer::AdaGrad:
      return update_all(ctx, op, [=](float* w, float* a, float*, std::size_t i, float g) {
        adagrad_step(w[i], a[i], g, lr, epsilon);
      });
    case Optimizer::Adam: {
      const auto beta1 = static_cast<float>(op.beta1);
      const auto beta2 = static_cast<float>(op.beta2);
      const float lr_t = adam_learning_rate(lr, beta1, beta2, *op.step.ptr<std::int64_t>());
      return update_all(ctx, op, [=](float* w, float* m, float* v, std::size_t i, float g) {
        adam_step(w[i], m[i], v[i], g, lr_t, beta1, beta2, epsilon);
      });
    }
  }
}

const OpRegistration<DenseUpdate> dense_update_cpu{DeviceType::Cpu, &dense_update_kernel};

}  // namespace
}  // namespace hugectr
