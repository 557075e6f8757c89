// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/dense_update.hpp"

#include <algorithm>

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
  const std::size_t states = num_states(params);
  HCTR_CHECK(state0.empty() == (states < 1) && state1.empty() == (states < 2), kName,
             ": this optimizer has ", states, " state tensors; give exactly these");
  if (states >= 1) check_packed_float(kName, "state0", state0, w.shape);
  if (states >= 2) check_packed_float(kName, "state1", state1, w.shape);
  if (!unscale.empty()) check_packed_float(kName, "unscale", unscale, {1});
  if (!w_16.empty()) {
    check_real(kName, "w_16", w_16);
    HCTR_CHECK(w_16.shape == w.shape && w_16.contiguous(), kName, ": w_16 has shape ",
               to_string(w_16.shape), ", must be contiguous ", to_string(w.shape));
  }
}

namespace {

// The rule on every weight; absent states point at nothing and the rule does not touch them.
template <class Rule>
void update_all(const OpContext& ctx, const DenseUpdate& op, const Rule& given) {
  const float unscale = op.unscale.empty() ? 1.0f : *op.unscale.ptr<float>();
  if (unscale == 0.0f) return;
  const float factor = static_cast<float>(1.0 / op.grad_scale) * unscale;
  const float rate = rate_of(given, *op.lr.ptr<float>(), *op.step.ptr<std::int64_t>());
  parallel_for(*ctx.pool, op.w.size(), kSpanElements, [&](std::size_t begin, std::size_t end) {
    const std::size_t n = end - begin;
    const Rule rule = given;
    const float own_rate = rate, own_factor = factor;
    float* __restrict w = op.w.ptr<float>() + begin;
    const float* __restrict g = op.g.ptr<float>() + begin;
    [[maybe_unused]] float* __restrict s0 =
        op.state0.empty() ? nullptr : op.state0.ptr<float>() + begin;
    [[maybe_unused]] float* __restrict s1 =
        op.state1.empty() ? nullptr : op.state1.ptr<float>() + begin;
    [[maybe_unused]] float none = 0.0f;
    for (std::size_t i = 0; i < n; ++i) {
      const float gradient = g[i] * own_factor;
      if constexpr (kStateCount<Rule> == 0) {
        single_step(rule, own_rate, w[i], none, none, gradient);
      } else if constexpr (kStateCount<Rule> == 1) {
        single_step(rule, own_rate, w[i], s0[i], none, gradient);
      } else {
        single_step(rule, own_rate, w[i], s0[i], s1[i], gradient);
      }
    }
    if (op.w_16.empty()) return;
    float* rounded = op.w_16.ptr<float>() + begin;  // op.hpp rounds it
    std::copy(w, w + n, rounded);
  });
}

void dense_update_kernel(const OpContext& ctx, const DenseUpdate& op) {
  with_optimizer(op.params, [&](const auto& rule) { update_all(ctx, op, rule); });
}

const OpRegistration<DenseUpdate> dense_update_cpu{DeviceType::Cpu, &dense_update_kernel};

}  // namespace
}  // namespace hugectr
