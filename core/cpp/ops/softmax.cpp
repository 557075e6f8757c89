// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/softmax.hpp"

#include <algorithm>
#include <cmath>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

bool softmax_mask_fits(const Shape& mask, const Shape& x) {
  if (mask.size() != x.size() || mask.front() != x.front() || mask.back() != x.back()) return false;
  bool ended = false;  // the run of ones
  for (std::size_t i = 1; i + 1 < x.size(); ++i) {
    const bool stands_for_all = mask[i] == 1 && x[i] != 1;
    if (mask[i] != x[i] && !stands_for_all) return false;
    if (stands_for_all && ended) return false;
    if (!stands_for_all && x[i] != 1) ended = true;
  }
  return true;
}

SoftmaxMaskRows SoftmaxFwd::mask_rows() const {
  SoftmaxMaskRows result;
  if (mask.empty()) return result;
  std::size_t outer = 1, inner = 1;
  for (std::size_t i = 1; i + 1 < x.shape.size(); ++i) {
    outer *= x.shape[i];
    inner *= mask.shape[i];
  }
  return {outer, inner};
}

void SoftmaxFwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "y", y, x.dtype, x.shape);
  check_last_axis(kName, {{"x", &x}, {"y", &y}});
  if (mask.empty()) return;
  HCTR_CHECK(softmax_mask_fits(mask.shape, x.shape), kName, ": mask has shape ",
             to_string(mask.shape), ", which does not go with x of shape ", to_string(x.shape));
  check_real(kName, "mask", mask, x.dtype, mask.shape);
  check_last_axis(kName, "mask", mask);
}

void SoftmaxBwd::check() const {
  check_real(kName, "y", y);
  check_real(kName, "dy", dy, y.dtype, y.shape);
  check_real(kName, "dx", dx, y.dtype, y.shape);
  check_last_axis(kName, {{"y", &y}, {"dy", &dy}, {"dx", &dx}});
}

namespace {

// y may be x.
void softmax_row(const float* x, const float* mask, float* y, std::size_t n) {
  if (mask != nullptr) {
    for (std::size_t j = 0; j < n; ++j) y[j] = softmax_masked(x[j], mask[j]);
    x = y;
  }
  float most = x[0];
  for (std::size_t j = 1; j < n; ++j) most = std::max(most, x[j]);
  double sum = 0.0;
  for (std::size_t j = 0; j < n; ++j) {
    y[j] = std::exp(x[j] - most);
    sum += static_cast<double>(y[j]);
  }
  const auto scale = static_cast<float>(1.0 / sum);
  for (std::size_t j = 0; j < n; ++j) y[j] *= scale;
}

void softmax_fwd_kernel(const OpContext& ctx, const SoftmaxFwd& op) {
  const TensorRef xs = last_axis_rows(op.x), ys = last_axis_rows(op.y);
  const TensorRef masks = last_axis_rows(op.mask);
  const SoftmaxMaskRows mask_row = op.mask_rows();
  const std::size_t n = xs.row_size();
  parallel_for(*ctx.pool, xs.rows(), row_grain(n), [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      softmax_row(xs.row<float>(r), masks.empty() ? nullptr : masks.row<float>(mask_row(r)),
                  ys.row<float>(r), n);
    }
  });
}

void softmax_bwd_kernel(const OpContext& ctx, const SoftmaxBwd& op) {
  const TensorRef ys = last_axis_rows(op.y), dys = last_axis_rows(op.dy);
  const TensorRef dxs = last_axis_rows(op.dx);
  const std::size_t n = ys.row_size();
  parallel_for(*ctx.pool, ys.rows(), row_grain(n), [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const float* __restrict y = ys.row<float>(r);
      const float* dy = dys.row<float>(r);
      float* dx = dxs.row<float>(r);
      double dot = 0.0;
      for (std::size_t j = 0; j < n; ++j) dot += static_cast<double>(dy[j] * y[j]);
      const auto mean = static_cast<float>(dot);
      for (std::size_t j = 0; j < n; ++j) dx[j] = y[j] * (dy[j] - mean);
    }
  });
}

const OpRegistration<SoftmaxFwd> softmax_fwd_cpu{DeviceType::Cpu, &softmax_fwd_kernel};
const OpRegistration<SoftmaxBwd> softmax_bwd_cpu{DeviceType::Cpu, &softmax_bwd_kernel};

}  // namespace
}  // namespace hugectr
