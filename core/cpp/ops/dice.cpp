// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/dice.hpp"

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/batch_sums.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void DiceFwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "y", y, x.dtype, x.shape);
  check_last_axis(kName, {{"x", &x}, {"y", &y}});
  check_columns(kName, last_axis_rows(x).row_size(),
                {{"mean", &mean}, {"mean_low", &mean_low}, {"var", &var}});
}

void DiceBwdSums::check() const {
  check_real(kName, "x", x);
  check_real(kName, "dy", dy, x.dtype, x.shape);
  check_last_axis(kName, {{"x", &x}, {"dy", &dy}});
  const TensorRef rows = last_axis_rows(x);
  const std::size_t n = rows.row_size();
  check_columns(kName, n, {{"mean", &mean}, {"mean_low", &mean_low}, {"var", &var}});
  check_packed_double(kName, "dsums", dsums, {2 * n});
  check_packed_double(kName, "partial", partial, {partial_rows(rows.rows()), 2 * n});
}

void DiceBwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "dy", dy, x.dtype, x.shape);
  check_real(kName, "dx", dx, x.dtype, x.shape);
  check_last_axis(kName, {{"x", &x}, {"dy", &dy}, {"dx", &dx}});
  check_row_weights(kName, weight, last_axis_rows(x).rows());
  const std::size_t n = last_axis_rows(x).row_size();
  check_columns(kName, n, {{"mean", &mean}, {"mean_low", &mean_low}, {"var", &var}});
  check_packed_double(kName, "sums", sums, {n + 1});
  check_packed_double(kName, "dsums", dsums, {2 * n});
}

namespace {

// h of one column's elements.
struct DiceColumns {
  template <class Op>
  explicit DiceColumns(const Op& op)
      : mean(op.mean.template ptr<float>()),
        low(op.mean_low.template ptr<float>()),
        scale(batch_norm_inv_deviations(op.var, op.eps)),
        alpha(static_cast<float>(op.alpha)) {}
  float hat(float x, std::size_t j) const { return batch_norm_hat(x, {mean[j], low[j]}, scale[j]); }
  const float *mean, *low;
  std::vector<float> scale;
  float alpha;
};

void dice_fwd_kernel(const OpContext& ctx, const DiceFwd& op) {
  const TensorRef xs = last_axis_rows(op.x), ys = last_axis_rows(op.y);
  const DiceColumns columns(op);
  const std::size_t n = xs.row_size();
  parallel_for(*ctx.pool, xs.rows(), row_grain(n), [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const float* x = xs.row<float>(r);
      float* y = ys.row<float>(r);
      for (std::size_t j = 0; j < n; ++j) y[j] = dice(x[j], columns.hat(x[j], j), columns.alpha);
    }
  });
}

void dice_bwd_sums_kernel(const OpContext& ctx, const DiceBwdSums& op) {
  const TensorRef xs = last_axis_rows(op.x), dys = last_axis_rows(op.dy);
  const DiceColumns columns(op);
  const std::size_t n = xs.row_size();
  sum_over_batch(*ctx.pool, xs.rows(), op.partial, op.dsums.ptr<double>(),
                 [&](std::size_t r, double* __restrict sums) {
                   const float* __restrict x = xs.row<float>(r);
                   const float* __restrict dy = dys.row<float>(r);
                   for (std::size_t j = 0; j < n; ++j) {
                     const float h = columns.hat(x[j], j);
                     const float g = dy[j] * dice_gate_gradient(x[j], h, columns.alpha);
                     sums[j] += static_cast<double>(g);
                     sums[n + j] += static_cast<double>(g * h);
                   }
                 });
}

void dice_bwd_kernel(const OpContext& ctx, const DiceBwd& op) {
  const TensorRef xs = last_axis_rows(op.x), dys = last_axis_rows(op.dy);
  const TensorRef dxs = last_axis_rows(op.dx);
  const DiceColumns columns(op);
  const std::size_t n = xs.row_size();
  const RowWeights weight(op.weight, xs.rows());
  const std::vector<float> means =
      batch_means(op.dsums.ptr<double>(), 2 * n, op.sums.ptr<double>()[n]);
  parallel_for(*ctx.pool, xs.rows(), row_grain(n), [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const float* __restrict x = xs.row<float>(r);
      const float* dy = dys.row<float>(r);
      float* dx = dxs.row<float>(r);
      const float w = weight[r];
      for (std::size_t j = 0; j < n; ++j) {
        const float h = columns.hat(x[j], j);
        const float g = dy[j] * dice_gate_gradient(x[j], h, columns.alpha);
        const float through = g - w * (means[j] + h * means[n + j]);
        dx[j] = dy[j] * dice_slope(h, columns.alpha) + columns.scale[j] * through;
      }
    }
  });
}

const OpRegistration<DiceFwd> dice_fwd_cpu{DeviceType::Cpu, &dice_fwd_kernel};
const OpRegistration<DiceBwdSums> dice_bwd_sums_cpu{DeviceType::Cpu, &dice_bwd_sums_kernel};
const OpRegistration<DiceBwd> dice_bwd_cpu{DeviceType::Cpu, &dice_bwd_kernel};

}  // namespace
}  // namespace hugectr
