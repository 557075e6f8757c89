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

constexpr auto whole_gradient = [](float dy, float, float) { return dy; };

void batch_norm_fwd_kernel(const OpContext& ctx, const BatchNormFwd& op) {
  normalise_each(ctx, op,
                 [gamma = op.gamma.ptr<float>(), beta = op.beta.ptr<float>()](
                     std::size_t j, float, float h) { return gamma[j] * h + beta[j]; });
}

void batch_norm_bwd_sums_kernel(const OpContext& ctx, const BatchNormBwdSums& op) {
  sum_gradients(ctx, op, whole_gradient);
  const double* dsums = op.dsums.ptr<double>();
  const std::size_t n = op.mean.size();
  for (std::size_t j = 0; j < n; ++j) {
    op.dbeta.ptr<float>()[j] += static_cast<float>(dsums[j]);
    op.dgamma.ptr<float>()[j] += static_cast<float>(dsums[n + j]);
  }
}

void batch_norm_bwd_kernel(const OpContext& ctx, const BatchNormBwd& op) {
  set_gradients(
      ctx, op, whole_gradient,
      [gamma = op.gamma.ptr<float>()](std::size_t j, float, float, float inv_deviation,
                                      float left) { return gamma[j] * inv_deviation * left; });
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
