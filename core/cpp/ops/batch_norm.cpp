// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/batch_norm.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/batch_sums.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void BatchNormSums::check() const {
  check_real(kName, "x", x);
  check_last_axis(kName, "x", x);
  check_row_weights(kName, weight, last_axis_rows(x).rows());
  const TensorRef rows = last_axis_rows(x);
  check_packed_double(kName, "sums", sums, {rows.row_size() + 1});
  check_packed_double(kName, "partial", partial, {partial_rows(rows.rows()), rows.row_size() + 1});
}

void BatchNormSquares::check() const {
  check_real(kName, "x", x);
  check_last_axis(kName, "x", x);
  check_row_weights(kName, weight, last_axis_rows(x).rows());
  const TensorRef rows = last_axis_rows(x);
  check_packed_double(kName, "sums", sums, {rows.row_size() + 1});
  check_packed_double(kName, "squares", squares, {rows.row_size()});
  check_packed_double(kName, "partial", partial, {partial_rows(rows.rows()), rows.row_size()});
}

void BatchNormStatistics::check() const {
  const std::size_t n = squares.size();
  check_packed_double(kName, "squares", squares, {n});
  check_packed_double(kName, "sums", sums, {n + 1});
  check_columns(kName, n, {{"mean", &mean}, {"mean_low", &mean_low}, {"var", &var}});
  if (!running_mean.empty() || !running_mean_low.empty() || !running_var.empty()) {
    check_columns(kName, n,
                  {{"running_mean", &running_mean},
                   {"running_mean_low", &running_mean_low},
                   {"running_var", &running_var}});
  }
  HCTR_CHECK(factor >= 0.0 && factor <= 1.0, kName, ": factor is ", factor, ", must be in [0, 1]");
}

void BatchNormFwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "y", y, x.dtype, x.shape);
  check_last_axis(kName, {{"x", &x}, {"y", &y}});
  check_columns(kName, last_axis_rows(x).row_size(),
                {{"mean", &mean},
                 {"mean_low", &mean_low},
                 {"var", &var},
                 {"gamma", &gamma},
                 {"beta", &beta}});
}

void BatchNormBwdSums::check() const {
  check_real(kName, "x", x);
  check_real(kName, "dy", dy, x.dtype, x.shape);
  check_last_axis(kName, {{"x", &x}, {"dy", &dy}});
  const TensorRef rows = last_axis_rows(x);
  const std::size_t n = rows.row_size();
  check_columns(kName, n,
                {{"mean", &mean},
                 {"mean_low", &mean_low},
                 {"var", &var},
                 {"dgamma", &dgamma},
                 {"dbeta", &dbeta}});
  check_packed_double(kName, "dsums", dsums, {2 * n});
  check_packed_double(kName, "partial", partial, {partial_rows(rows.rows()), 2 * n});
}

void BatchNormBwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "dy", dy, x.dtype, x.shape);
  check_real(kName, "dx", dx, x.dtype, x.shape);
  check_last_axis(kName, {{"x", &x}, {"dy", &dy}, {"dx", &dx}});
  check_row_weights(kName, weight, last_axis_rows(x).rows());
  const std::size_t n = last_axis_rows(x).row_size();
  check_columns(kName, n,
                {{"mean", &mean}, {"mean_low", &mean_low}, {"var", &var}, {"gamma", &gamma}});
  check_packed_double(kName, "sums", sums, {n + 1});
  check_packed_double(kName, "dsums", dsums, {2 * n});
}

namespace {

void batch_norm_sums_kernel(const OpContext& ctx, const BatchNormSums& op) {
  const TensorRef rows = last_axis_rows(op.x);
  const std::size_t n = rows.row_size();
  const RowWeights weight(op.weight, rows.rows());
  sum_over_batch(*ctx.pool, rows.rows(), op.partial, op.sums.ptr<double>(),
                 [&](std::size_t r, double* __restrict sums) {
                   const double w = weight[r];
                   if (w == 0.0) return;
                   const float* __restrict x = rows.row<float>(r);
                   for (std::size_t j = 0; j < n; ++j) sums[j] += w * static_cast<double>(x[j]);
                   sums[n] += w;
                 });
}

void batch_norm_squares_kernel(const OpContext& ctx, const BatchNormSquares& op) {
  const TensorRef rows = last_axis_rows(op.x);
  const std::size_t n = rows.row_size();
  const RowWeights weight(op.weight, rows.rows());
  const double* total = op.sums.ptr<double>();
  std::vector<double> mean(n, 0.0);
  for (std::size_t j = 0; j < n && total[n] > 0.0; ++j) mean[j] = total[j] / total[n];
  sum_over_batch(*ctx.pool, rows.rows(), op.partial, op.squares.ptr<double>(),
                 [&](std::size_t r, double* __restrict sums) {
                   const double w = weight[r];
                   if (w == 0.0) return;
                   const float* __restrict x = rows.row<float>(r);
                   const double* __restrict center = mean.data();
                   for (std::size_t j = 0; j < n; ++j) {
                     const double distance = static_cast<double>(x[j]) - center[j];
                     sums[j] += w * distance * distance;
                   }
                 });
}

void batch_norm_statistics_kernel(const OpContext&, const BatchNormStatistics& op) {
  const BatchNormArrays arrays = op.arrays();
  for (std::size_t j = 0; j < arrays.n; ++j) batch_norm_statistics_of(arrays, j);
}

void batch_norm_fwd_kernel(const OpContext& ctx, const BatchNormFwd& op) {
  const TensorRef xs = last_axis_rows(op.x), ys = last_axis_rows(op.y);
  const std::size_t n = xs.row_size();
  const std::vector<float> inverse = batch_norm_inv_deviations(op.var, op.eps);
  parallel_for(*ctx.pool, xs.rows(), row_grain(n), [&](std::size_t begin, std::size_t end) {
    const float* __restrict mean = op.mean.ptr<float>();
    const float* __restrict low = op.mean_low.ptr<float>();
    const float* __restrict gamma = op.gamma.ptr<float>();
    const float* __restrict beta = op.beta.ptr<float>();
    const float* __restrict scale = inverse.data();
    for (std::size_t r = begin; r < end; ++r) {
      const float* x = xs.row<float>(r);
      float* y = ys.row<float>(r);
      for (std::size_t j = 0; j < n; ++j) {
        y[j] = gamma[j] * batch_norm_hat(x[j], {mean[j], low[j]}, scale[j]) + beta[j];
      }
    }
  });
}

void batch_norm_bwd_sums_kernel(const OpContext& ctx, const BatchNormBwdSums& op) {
  const TensorRef xs = last_axis_rows(op.x), dys = last_axis_rows(op.dy);
  const std::size_t n = xs.row_size();
  const std::vector<float> inverse = batch_norm_inv_deviations(op.var, op.eps);
  double* dsums = op.dsums.ptr<double>();
  sum_over_batch(
      *ctx.pool, xs.rows(), op.partial, dsums, [&](std::size_t r, double* __restrict sums) {
        const float* __restrict x = xs.row<float>(r);
        const float* __restrict dy = dys.row<float>(r);
        const float* __restrict mean = op.mean.ptr<float>();
        const float* __restrict low = op.mean_low.ptr<float>();
        const float* __restrict scale = inverse.data();
        for (std::size_t j = 0; j < n; ++j) sums[j] += static_cast<double>(dy[j]);
        for (std::size_t j = 0; j < n; ++j) {
          sums[n + j] +=
              static_cast<double>(dy[j] * batch_norm_hat(x[j], {mean[j], low[j]}, scale[j]));
        }
      });
  for (std::size_t j = 0; j < n; ++j) {
    op.dbeta.ptr<float>()[j] += static_cast<float>(dsums[j]);
    op.dgamma.ptr<float>()[j] += static_cast<float>(dsums[n + j]);
  }
}

void batch_norm_bwd_kernel(const OpContext& ctx, const BatchNormBwd& op) {
  const TensorRef xs = last_axis_rows(op.x), dys = last_axis_rows(op.dy);
  const TensorRef dxs = last_axis_rows(op.dx);
  const std::size_t n = xs.row_size();
  const RowWeights weight(op.weight, xs.rows());
  const std::vector<float> inverse = batch_norm_inv_deviations(op.var, op.eps);
  const std::vector<float> means =  // of dy and of dy xhat
      batch_means(op.dsums.ptr<double>(), 2 * n, op.sums.ptr<double>()[n]);
  parallel_for(*ctx.pool, xs.rows(), row_grain(n), [&](std::size_t begin, std::size_t end) {
    const float* __restrict mean = op.mean.ptr<float>();
    const float* __restrict low = op.mean_low.ptr<float>();
    const float* __restrict gamma = op.gamma.ptr<float>();
    const float* __restrict scale = inverse.data();
    const float* __restrict mean_dy = means.data();
    const float* __restrict mean_dy_hat = means.data() + n;
    for (std::size_t r = begin; r < end; ++r) {
      const float* __restrict x = xs.row<float>(r);
      const float* dy = dys.row<float>(r);
      float* dx = dxs.row<float>(r);
      const float w = weight[r];
      for (std::size_t j = 0; j < n; ++j) {
        const float hat = batch_norm_hat(x[j], {mean[j], low[j]}, scale[j]);
        dx[j] = gamma[j] * scale[j] * (dy[j] - w * (mean_dy[j] + hat * mean_dy_hat[j]));
      }
    }
  });
}

const OpRegistration<BatchNormSums> sums_cpu{DeviceType::Cpu, &batch_norm_sums_kernel};
const OpRegistration<BatchNormSquares> squares_cpu{DeviceType::Cpu, &batch_norm_squares_kernel};
const OpRegistration<BatchNormStatistics> statistics_cpu{DeviceType::Cpu,
                                                         &batch_norm_statistics_kernel};
const OpRegistration<BatchNormFwd> fwd_cpu{DeviceType::Cpu, &batch_norm_fwd_kernel};
const OpRegistration<BatchNormBwdSums> bwd_sums_cpu{DeviceType::Cpu, &batch_norm_bwd_sums_kernel};
const OpRegistration<BatchNormBwd> bwd_cpu{DeviceType::Cpu, &batch_norm_bwd_kernel};

}  // namespace
}  // namespace hugectr
