// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/layer_norm.hpp"

#include <algorithm>
#include <cmath>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void LayerNormFwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "y", y, x.dtype, x.shape);
  check_last_axis(kName, {{"x", &x}, {"y", &y}});
  check_columns(kName, last_axis_rows(x).row_size(), {{"gamma", &gamma}, {"beta", &beta}});
}

void LayerNormBwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "dy", dy, x.dtype, x.shape);
  check_last_axis(kName, {{"x", &x}, {"dy", &dy}});
  if (!dx.empty()) {
    check_real(kName, "dx", dx, x.dtype, x.shape);
    check_last_axis(kName, "dx", dx);
  }
  const TensorRef rows = last_axis_rows(x);
  const std::size_t n = rows.row_size();
  check_columns(kName, n, {{"gamma", &gamma}, {"dgamma", &dgamma}, {"dbeta", &dbeta}});
  check_packed_float(kName, "partial", partial, {layer_norm_pieces(rows.rows()), 2 * n});
}

namespace {

struct RowNorm {
  float mean, inv_deviation;
  float hat(float x) const { return (x - mean) * inv_deviation; }
};

// In double, the deviations in a second pass: a large mean costs no digits.
RowNorm row_norm(const float* x, std::size_t n, double eps) {
  double sum = 0.0, squares = 0.0;
  for (std::size_t j = 0; j < n; ++j) sum += static_cast<double>(x[j]);
  const double mean = sum / static_cast<double>(n);
  for (std::size_t j = 0; j < n; ++j) {
    const double distance = static_cast<double>(x[j]) - mean;
    squares += distance * distance;
  }
  const double var = squares / static_cast<double>(n);
  return {static_cast<float>(mean), static_cast<float>(1.0 / std::sqrt(var + eps))};
}

void layer_norm_fwd_kernel(const OpContext& ctx, const LayerNormFwd& op) {
  const TensorRef xs = last_axis_rows(op.x), ys = last_axis_rows(op.y);
  const std::size_t n = xs.row_size();
  parallel_for(*ctx.pool, xs.rows(), row_grain(n), [&](std::size_t begin, std::size_t end) {
    const float* __restrict gamma = op.gamma.ptr<float>();
    const float* __restrict beta = op.beta.ptr<float>();
    for (std::size_t r = begin; r < end; ++r) {
      const float* x = xs.row<float>(r);
      float* y = ys.row<float>(r);
      const RowNorm norm = row_norm(x, n, op.eps);
      for (std::size_t j = 0; j < n; ++j) y[j] = gamma[j] * norm.hat(x[j]) + beta[j];
    }
  });
}

// dx of one row, and its part of the sums. dx may be dy.
void layer_norm_row(const float* x, const float* gamma, const float* dy, float* dx, float* dgamma,
                    float* dbeta, std::size_t n, double eps) {
  const RowNorm norm = row_norm(x, n, eps);
  double sum = 0.0, sum_hat = 0.0;
  for (std::size_t j = 0; j < n; ++j) {
    const float hat = norm.hat(x[j]), g = gamma[j] * dy[j];
    sum += static_cast<double>(g);
    sum_hat += static_cast<double>(g * hat);
    dgamma[j] += dy[j] * hat;
    dbeta[j] += dy[j];
  }
  if (dx == nullptr) return;
  const auto mean = static_cast<float>(sum / static_cast<double>(n));
  const auto mean_hat = static_cast<float>(sum_hat / static_cast<double>(n));
  for (std::size_t j = 0; j < n; ++j) {
    dx[j] = norm.inv_deviation * (gamma[j] * dy[j] - mean - norm.hat(x[j]) * mean_hat);
  }
}

void layer_norm_bwd_kernel(const OpContext& ctx, const LayerNormBwd& op) {
  const TensorRef xs = last_axis_rows(op.x), dys = last_axis_rows(op.dy);
  const TensorRef dxs = last_axis_rows(op.dx);
  const std::size_t n = xs.row_size(), rows = xs.rows(), piece = layer_norm_piece(rows);
  parallel_for(*ctx.pool, op.partial.rows(), 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t p = first; p < last; ++p) {
      float* dgamma = op.partial.row<float>(p);
      std::fill_n(dgamma, 2 * n, 0.0f);
      for (std::size_t r = p * piece; r < std::min(rows, (p + 1) * piece); ++r) {
        layer_norm_row(xs.row<float>(r), op.gamma.ptr<float>(), dys.row<float>(r),
                       dxs.empty() ? nullptr : dxs.row<float>(r), dgamma, dgamma + n, n, op.eps);
      }
    }
  });
  add_partials(*ctx.pool, op.partial, 0, n, op.dgamma.ptr<float>());
  add_partials(*ctx.pool, op.partial, n, n, op.dbeta.ptr<float>());
}

const OpRegistration<LayerNormFwd> layer_norm_fwd_cpu{DeviceType::Cpu, &layer_norm_fwd_kernel};
const OpRegistration<LayerNormBwd> layer_norm_bwd_cpu{DeviceType::Cpu, &layer_norm_bwd_kernel};

}  // namespace
}  // namespace hugectr
