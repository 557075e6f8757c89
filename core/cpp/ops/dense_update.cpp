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

constexpr std::size_t kAdjusted = 256;  // gradients that are adjusted at a time

// The rule on n neighbouring weights, with gradients g * factor. Absent states point at nothing
// and the rule does not touch them.
template <class Rule>
void update_span(const Rule& given, float rate, float factor, std::size_t n,
                 const float* __restrict g, float* __restrict w,
                 [[maybe_unused]] float* __restrict s0, [[maybe_unused]] float* __restrict s1) {
  const Rule rule = given;
  [[maybe_unused]] float none = 0.0f;
  for (std::size_t i = 0; i < n; ++i) {
    const float gradient = g[i] * factor;
    if constexpr (kStateCount<Rule> == 0) {
      single_step(rule, rate, w[i], none, none, gradient);
    } else if constexpr (kStateCount<Rule> == 1) {
      single_step(rule, rate, w[i], s0[i], none, gradient);
    } else {
      single_step(rule, rate, w[i], s0[i], s1[i], gradient);
    }
  }
}

template <class Rule>
void update_all(const OpContext& ctx, const DenseUpdate& op, const Rule& rule) {
  const float unscale = op.unscale.empty() ? 1.0f : *op.unscale.ptr<float>();
  if (unscale == 0.0f) return;
  const float factor = static_cast<float>(1.0 / op.grad_scale) * unscale;
  const float lr = *op.lr.ptr<float>();
  const float rate = rate_of(rule, lr, *op.step.ptr<std::int64_t>());
  const Adjustment adjust = adjustment_of(op.params);
  const bool adjusts = adjust.any();
  const float kept = adjust.kept(lr);
  parallel_for(*ctx.pool, op.w.size(), kSpanElements, [&](std::size_t begin, std::size_t end) {
    const std::size_t n = end - begin;
    float* w = op.w.ptr<float>() + begin;
    const float* g = op.g.ptr<float>() + begin;
    const auto state = [&](const TensorRef& ref, std::size_t at) {
      return ref.empty() ? nullptr : ref.ptr<float>() + begin + at;
    };
    if (!adjusts) {
      update_span(rule, rate, factor, n, g, w, state(op.state0, 0), state(op.state1, 0));
    }
    for (std::size_t at = 0; adjusts && at < n; at += kAdjusted) {
      const std::size_t count = std::min(kAdjusted, n - at);
      float adjusted[kAdjusted];
      for (std::size_t i = 0; i < count; ++i) {
        adjusted[i] = g[at + i] * factor;
        adjust(kept, w[at + i], adjusted[i]);
      }
      update_span(rule, rate, 1.0f, count, adjusted, w + at, state(op.state0, at),
                  state(op.state1, at));
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
