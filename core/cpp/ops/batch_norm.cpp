// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/batch_norm.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {
namespace {

void check_double(const char* op, const char* name, const TensorRef& ref, const Shape& wanted) {
  HCTR_CHECK(ref.dtype == TensorScalarType::Float64 && ref.shape == wanted && ref.contiguous(), op,
             ": ", name, " must be contiguous float64 of shape ", to_string(wanted), ", found ",
             to_string(ref.dtype), " ", to_string(ref.shape));
}

void check_columns(const char* op, std::size_t n,
                   std::initializer_list<std::pair<const char*, const TensorRef*>> tensors) {
  for (const auto& [name, ref] : tensors) check_packed_float(op, name, *ref, {n});
}

}  // namespace

void BatchNormSums::check() const {
  check_real(kName, "x", x);
  check_packed_float(kName, "weight", weight, {x.rows()});
  check_double(kName, "sums", sums, {x.row_size() + 1});
  check_double(kName, "partial", partial, {partial_rows(x.rows()), x.row_size() + 1});
}

void BatchNormSquares::check() const {
  check_real(kName, "x", x);
  check_packed_float(kName, "weight", weight, {x.rows()});
  check_double(kName, "sums", sums, {x.row_size() + 1});
  check_double(kName, "squares", squares, {x.row_size()});
  check_double(kName, "partial", partial, {partial_rows(x.rows()), x.row_size()});
}

void BatchNormStatistics::check() const {
  const std::size_t n = squares.size();
  check_double(kName, "squares", squares, {n});
  check_double(kName, "sums", sums, {n + 1});
  check_columns(kName, n,
                {{"mean", &mean},
                 {"mean_low", &mean_low},
                 {"var", &var},
                 {"running_mean", &running_mean},
                 {"running_mean_low", &running_mean_low},
                 {"running_var", &running_var}});
  HCTR_CHECK(factor >= 0.0 && factor <= 1.0, kName, ": factor is ", factor, ", must be in [0, 1]");
}

void BatchNormFwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "y", y, x.dtype, x.shape);
  check_columns(kName, x.row_size(),
                {{"mean", &mean},
                 {"mean_low", &mean_low},
                 {"var", &var},
                 {"gamma", &gamma},
                 {"beta", &beta}});
}

void BatchNormBwdSums::check() const {
  check_real(kName, "x", x);
  check_real(kName, "dy", dy, x.dtype, x.shape);
  const std::size_t n = x.row_size();
  check_columns(kName, n,
                {{"mean", &mean},
                 {"mean_low", &mean_low},
                 {"var", &var},
                 {"dgamma", &dgamma},
                 {"dbeta", &dbeta}});
  check_double(kName, "dsums", dsums, {2 * n});
  check_double(kName, "partial", partial, {partial_rows(x.rows()), 2 * n});
}

void BatchNormBwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "dy", dy, x.dtype, x.shape);
  check_real(kName, "dx", dx, x.dtype, x.shape);
  check_packed_float(kName, "weight", weight, {x.rows()});
  const std::size_t n = x.row_size();
  check_columns(kName, n,
                {{"mean", &mean}, {"mean_low", &mean_low}, {"var", &var}, {"gamma", &gamma}});
  check_double(kName, "sums", sums, {n + 1});
  check_double(kName, "dsums", dsums, {2 * n});
}

namespace {

// row(r, sums): adds sample r to `count` sums; result: the sums over all samples.
template <class Row>
void sum_over_batch(ThreadPool& pool, std::size_t batch, const TensorRef& partial, double* result,
                    const Row& row) {
  const std::size_t piece = samples_per_partial(batch);
  const std::size_t count = partial.row_size();
  parallel_for(pool, batch, piece, [&](std::size_t begin, std::size_t end) {
    double* sums = partial.row<double>(begin / piece);
    std::fill_n(sums, count, 0.0);
    for (std::size_t r = begin; r < end; ++r) row(r, sums);
  });
  std::fill_n(result, count, 0.0);
  for (std::size_t p = 0; p < partial.rows(); ++p) {
    const double* __restrict sums = partial.row<double>(p);
    for (std::size_t j = 0; j < count; ++j) result[j] += sums[j];
  }
}

// Columns' 1 / sqrt(var + eps).
std::vector<float> inverse_deviations(const TensorRef& var, double eps) {
  std::vector<float> result(var.size());
  for (std::size_t j = 0; j < result.size(); ++j) {
    result[j] = batch_norm_inv_deviation(var.ptr<float>()[j], eps);
  }
  return result;
}

void batch_norm_sums_kernel(const OpContext& ctx, const BatchNormSums& op) {
  const std::size_t n = op.x.row_size();
  const float* weight = op.weight.ptr<float>();
  sum_over_batch(*ctx.pool, op.x.rows(), op.partial, op.sums.ptr<double>(),
                 [&](std::size_t r, double* __restrict sums) {
                   if (weight[r] == 0.0f) return;
                   const float* __restrict x = op.x.row<float>(r);
                   const double w = weight[r];
                   for (std::size_t j = 0; j < n; ++j) sums[j] += w * static_cast<double>(x[j]);
                   sums[n] += w;
                 });
}

void batch_norm_squares_kernel(const OpContext& ctx, const BatchNormSquares& op) {
  const std::size_t n = op.x.row_size();
  const float* weight = op.weight.ptr<float>();
  const double* total = op.sums.ptr<double>();
  std::vector<double> mean(n, 0.0);
  for (std::size_t j = 0; j < n && total[n] > 0.0; ++j) mean[j] = total[j] / total[n];
  sum_over_batch(*ctx.pool, op.x.rows(), op.partial, op.squares.ptr<double>(),
                 [&](std::size_t r, double* __restrict sums) {
                   if (weight[r] == 0.0f) return;
                   const float* __restrict x = op.x.row<float>(r);
                   const double* __restrict center = mean.data();
                   const double w = weight[r];
                   for (std::size_t j = 0; j < n; ++j) {
                     const double distance = static_cast<double>(x[j]) - center[j];
                     sums[j] += w * distance * distance;
                   }
                 });
}

void batch_norm_statistics_kernel(const OpContext&, const BatchNormStatistics& op) {
  const std::size_t n = op.squares.size();
  const double count = op.sums.ptr<double>()[n];
  if (count <= 0.0) {  // a batch of padding only has no statistics; keep what was learned
    std::copy_n(op.running_mean.ptr<float>(), n, op.mean.ptr<float>());
    std::copy_n(op.running_mean_low.ptr<float>(), n, op.mean_low.ptr<float>());
    std::copy_n(op.running_var.ptr<float>(), n, op.var.ptr<float>());
    return;
  }
  for (std::size_t j = 0; j < n; ++j) {
    batch_norm_update_mean(op.sums.ptr<double>()[j] / count, op.factor, op.mean.ptr<float>()[j],
                           op.mean_low.ptr<float>()[j], op.running_mean.ptr<float>()[j],
                           op.running_mean_low.ptr<float>()[j]);
    batch_norm_update_var(op.squares.ptr<double>()[j] / count, op.factor, op.var.ptr<float>()[j],
                          op.running_var.ptr<float>()[j]);
  }
}

void batch_norm_fwd_kernel(const OpContext& ctx, const BatchNormFwd& op) {
  const std::size_t n = op.x.row_size();
  const std::vector<float> inverse = inverse_deviations(op.var, op.eps);
  parallel_for(*ctx.pool, op.x.rows(), row_grain(n), [&](std::size_t begin, std::size_t end) {
    const float* __restrict mean = op.mean.ptr<float>();
    const float* __restrict low = op.mean_low.ptr<float>();
    const float* __restrict gamma = op.gamma.ptr<float>();
    const float* __restrict beta = op.beta.ptr<float>();
    const float* __restrict scale = inverse.data();
    for (std::size_t r = begin; r < end; ++r) {
      const float* x = op.x.row<float>(r);
      float* y = op.y.row<float>(r);
      for (std::size_t j = 0; j < n; ++j) {
        y[j] = gamma[j] * batch_norm_hat(x[j], {mean[j], low[j]}, scale[j]) + beta[j];
      }
    }
  });
}

void batch_norm_bwd_sums_kernel(const OpContext& ctx, const BatchNormBwdSums& op) {
  const std::size_t n = op.x.row_size();
  const std::vector<float> inverse = inverse_deviations(op.var, op.eps);
  double* dsums = op.dsums.ptr<double>();
  sum_over_batch(
      *ctx.pool, op.x.rows(), op.partial, dsums, [&](std::size_t r, double* __restrict sums) {
        const float* __restrict x = op.x.row<float>(r);
        const float* __restrict dy = op.dy.row<float>(r);
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
  const std::size_t n = op.x.row_size();
  const std::vector<float> inverse = inverse_deviations(op.var, op.eps);
  const double count = op.sums.ptr<double>()[n];
  std::vector<float> means(2 * n, 0.0f);  // of dy and of dy xhat
  for (std::size_t j = 0; j < 2 * n && count > 0.0; ++j) {
    means[j] = static_cast<float>(op.dsums.ptr<double>()[j] / count);
  }
  parallel_for(*ctx.pool, op.x.rows(), row_grain(n), [&](std::size_t begin, std::size_t end) {
    const float* __restrict mean = op.mean.ptr<float>();
    const float* __restrict low = op.mean_low.ptr<float>();
    const float* __restrict gamma = op.gamma.ptr<float>();
    const float* __restrict scale = inverse.data();
    const float* __restrict mean_dy = means.data();
    const float* __restrict mean_dy_hat = means.data() + n;
    for (std::size_t r = begin; r < end; ++r) {
      const float* __restrict x = op.x.row<float>(r);
      const float* dy = op.dy.row<float>(r);
      float* dx = op.dx.row<float>(r);
      const float w = op.weight.ptr<float>()[r];
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
