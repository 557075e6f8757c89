// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/batch_norm.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

/// What ops with statistics over the batch share: batch_norm and dice.
namespace hugectr {

/// row(r, sums): adds row r to `count` sums; result: the sums over all rows.
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

/// Columns' 1 / sqrt(var + eps).
inline std::vector<float> batch_norm_inv_deviations(const TensorRef& var, double eps) {
  std::vector<float> result(var.size());
  for (std::size_t j = 0; j < result.size(); ++j) {
    result[j] = batch_norm_inv_deviation(var.ptr<float>()[j], eps);
  }
  return result;
}

/// `n` sums over `count` rows as means; 0 where there is no row.
inline std::vector<float> batch_means(const double* sums, std::size_t n, double count) {
  std::vector<float> means(n, 0.0f);
  for (std::size_t j = 0; j < n && count > 0.0; ++j) means[j] = static_cast<float>(sums[j] / count);
  return means;
}

/// Throws InvalidArgument unless there is a weight for each of `rows`, or for as many neighbouring
/// rows each.
inline void check_row_weights(const char* op, const TensorRef& weight, std::size_t rows) {
  check_packed_float(op, "weight", weight, {weight.size()});
  HCTR_CHECK(weight.size() > 0 && rows % weight.size() == 0, op, ": weight has ", weight.size(),
             " numbers, must have one for as many rows each of the ", rows, " of x");
}

/// The weight of row r, which is that of its sample.
class RowWeights {
 public:
  explicit RowWeights(const TensorRef& weight, std::size_t rows)
      : data_(weight.ptr<float>()),
        rows_per_sample_(std::max<std::size_t>(1, rows / std::max<std::size_t>(1, weight.size()))) {
  }
  float operator[](std::size_t row) const { return data_[row / rows_per_sample_]; }

 private:
  const float* data_;
  std::size_t rows_per_sample_;
};

/// Sums of g and of g h over the batch, for an op with x, dy, their columns' statistics, partial
/// and dsums: g = through(dy, x, h) of each element.
template <class Op, class Through>
void sum_gradients(const OpContext& ctx, const Op& op, const Through& through) {
  const TensorRef xs = last_axis_rows(op.x), dys = last_axis_rows(op.dy);
  const std::size_t n = xs.row_size();
  const std::vector<float> inverse = batch_norm_inv_deviations(op.var, op.eps);
  sum_over_batch(*ctx.pool, xs.rows(), op.partial, op.dsums.template ptr<double>(),
                 [&](std::size_t r, double* sums) {
                   double* __restrict of_g = sums;
                   double* __restrict of_g_hat = sums + n;
                   const float* __restrict x = xs.row<float>(r);
                   const float* __restrict dy = dys.row<float>(r);
                   const float* __restrict mean = op.mean.template ptr<float>();
                   const float* __restrict low = op.mean_low.template ptr<float>();
                   const float* __restrict scale = inverse.data();
                   for (std::size_t j = 0; j < n; ++j) {
                     const float h = batch_norm_hat(x[j], {mean[j], low[j]}, scale[j]);
                     const float g = through(dy[j], x[j], h);
                     of_g[j] += static_cast<double>(g);
                     of_g_hat[j] += static_cast<double>(g * h);
                   }
                 });
}

/// dx = gradient(j, dy, h, 1 / deviation, g - weight (mean of g + h mean of g h)) of each element.
template <class Op, class Through, class Gradient>
void set_gradients(const OpContext& ctx, const Op& op, const Through& through,
                   const Gradient& gradient) {
  const TensorRef xs = last_axis_rows(op.x), dys = last_axis_rows(op.dy);
  const TensorRef dxs = last_axis_rows(op.dx);
  const std::size_t n = xs.row_size();
  const RowWeights weight(op.weight, xs.rows());
  const std::vector<float> inverse = batch_norm_inv_deviations(op.var, op.eps);
  const std::vector<float> means =  // of g and of g h
      batch_means(op.dsums.template ptr<double>(), 2 * n, op.sums.template ptr<double>()[n]);
  parallel_for(*ctx.pool, xs.rows(), row_grain(n), [&](std::size_t begin, std::size_t end) {
    const float* __restrict mean = op.mean.template ptr<float>();
    const float* __restrict low = op.mean_low.template ptr<float>();
    const float* __restrict scale = inverse.data();
    const float* __restrict mean_g = means.data();
    const float* __restrict mean_g_hat = means.data() + n;
    for (std::size_t r = begin; r < end; ++r) {
      const float* __restrict x = xs.row<float>(r);
      const float* dy = dys.row<float>(r);
      float* dx = dxs.row<float>(r);
      const float w = weight[r];
      for (std::size_t j = 0; j < n; ++j) {
        const float h = batch_norm_hat(x[j], {mean[j], low[j]}, scale[j]);
        const float left = through(dy[j], x[j], h) - w * (mean_g[j] + h * mean_g_hat[j]);
        dx[j] = gradient(j, dy[j], h, scale[j], left);
      }
    }
  });
}

/// y = apply(j, x, h) of each element, for an op with x, y and statistics.
template <class Op, class Apply>
void normalise_each(const OpContext& ctx, const Op& op, const Apply& apply) {
  const TensorRef xs = last_axis_rows(op.x), ys = last_axis_rows(op.y);
  const std::size_t n = xs.row_size();
  const std::vector<float> inverse = batch_norm_inv_deviations(op.var, op.eps);
  parallel_for(*ctx.pool, xs.rows(), row_grain(n), [&](std::size_t begin, std::size_t end) {
    const float* __restrict mean = op.mean.template ptr<float>();
    const float* __restrict low = op.mean_low.template ptr<float>();
    const float* __restrict scale = inverse.data();
    for (std::size_t r = begin; r < end; ++r) {
      const float* x = xs.row<float>(r);
      float* y = ys.row<float>(r);
      for (std::size_t j = 0; j < n; ++j) {
        y[j] = apply(j, x[j], batch_norm_hat(x[j], {mean[j], low[j]}, scale[j]));
      }
    }
  });
}

}  // namespace hugectr
