// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/regularizer.hpp"

#include <cmath>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void RegularizerLoss::check() const {
  check_packed_float(kName, "w", w, {w.size()});
  check_packed_float(kName, "loss", loss, {1});
  HCTR_CHECK(
      partial.dtype == TensorScalarType::Float64 && partial.shape == Shape{partial_rows(w.size())},
      kName, ": partial must be float64 of shape ", to_string(Shape{partial_rows(w.size())}),
      ", found ", to_string(partial.dtype), " ", to_string(partial.shape));
  HCTR_CHECK(lambda >= 0.0, kName, ": lambda is ", lambda, ", must not be negative");
}

void RegularizerGrad::check() const {
  check_packed_float(kName, "w", w, {w.size()});
  check_packed_float(kName, "dw", dw, w.shape);
  if (!loss_scale.empty()) check_packed_float(kName, "loss_scale", loss_scale, {1});
  HCTR_CHECK(lambda >= 0.0, kName, ": lambda is ", lambda, ", must not be negative");
}

namespace {

// Running sums in several lanes, so that the loop is not one chain of additions.
template <class Term>
double sum_of(const float* __restrict w, std::size_t n, const Term& term) {
  constexpr std::size_t kLanes = 8;
  double sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += term(static_cast<double>(w[i + lane]));
    }
  }
  for (std::size_t lane = 0; i < n; ++i, ++lane) sums[lane] += term(static_cast<double>(w[i]));
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

void regularizer_loss_kernel(const OpContext& ctx, const RegularizerLoss& op) {
  const std::size_t piece = samples_per_partial(op.w.size());
  const float* w = op.w.ptr<float>();
  double* partial = op.partial.ptr<double>();
  parallel_for(*ctx.pool, op.w.size(), piece, [&](std::size_t begin, std::size_t end) {
    partial[begin / piece] =
        op.kind == RegularizerKind::L1
            ? sum_of(w + begin, end - begin, [](double value) { return std::fabs(value); })
            : sum_of(w + begin, end - begin, [](double value) { return 0.5 * value * value; });
  });
  double total = 0.0;
  for (std::size_t i = 0; i < op.partial.rows(); ++i) total += partial[i];
  *op.loss.ptr<float>() += static_cast<float>(op.share * op.lambda * total);
}

void regularizer_grad_kernel(const OpContext& ctx, const RegularizerGrad& op) {
  const float loss_scale = op.loss_scale.empty() ? 1.0f : *op.loss_scale.ptr<float>();
  const auto factor = loss_scale * static_cast<float>(op.share * op.lambda);
  const auto add = [&](auto kind) {
    parallel_for(*ctx.pool, op.w.size(), kSpanElements, [&](std::size_t begin, std::size_t end) {
      const float* __restrict w = op.w.ptr<float>();
      float* __restrict dw = op.dw.ptr<float>();
      for (std::size_t i = begin; i < end; ++i) {
        dw[i] += factor * regularizer_slope(decltype(kind)::value, w[i]);
      }
    });
  };
  if (op.kind == RegularizerKind::L1) {
    add(std::integral_constant<RegularizerKind, RegularizerKind::L1>{});
  } else {
    add(std::integral_constant<RegularizerKind, RegularizerKind::L2>{});
  }
}

const OpRegistration<RegularizerLoss> regularizer_loss_cpu{DeviceType::Cpu,
                                                           &regularizer_loss_kernel};
const OpRegistration<RegularizerGrad> regularizer_grad_cpu{DeviceType::Cpu,
                                                           &regularizer_grad_kernel};

}  // namespace
}  // namespace hugectr
