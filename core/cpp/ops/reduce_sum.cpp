// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/reduce_sum.hpp"

#include <algorithm>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/axis_segments.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {
namespace {

void check_shapes(const char* op, const char* x_name, const TensorRef& x, const char* y_name,
                  const TensorRef& y, std::int64_t axis) {
  check_real(op, x_name, x);
  check_axis(op, x_name, x, axis);
  Shape wanted = x.shape;
  wanted[static_cast<std::size_t>(axis)] = 1;
  check_real(op, y_name, y, x.dtype, wanted);
}

}  // namespace

void ReduceSumFwd::check() const { check_shapes(kName, "x", x, "y", y, axis); }
void ReduceSumBwd::check() const { check_shapes(kName, "dx", dx, "dy", dy, axis); }

namespace {

// Eight sums in a fixed order, so that the loop vectorises and its result does not depend on how.
float sum_of(const float* __restrict x, std::size_t n) {
  float sums[8] = {};
  std::size_t j = 0;
  for (; j + 8 <= n; j += 8) {
    for (std::size_t k = 0; k < 8; ++k) sums[k] += x[j + k];
  }
  for (std::size_t k = 0; j < n; ++j, ++k) sums[k] += x[j];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// A row of x is `outer` blocks of `count` x `inner`; the middle one is summed.
struct Extents {
  std::size_t outer, count, inner;
};

Extents extents(const TensorRef& x, std::int64_t axis) {
  return {segments(x, axis), x.shape[static_cast<std::size_t>(axis)], axis_step(x, axis)};
}

void forward_row(const float* __restrict x, float* __restrict y, const Extents& e, float factor) {
  for (std::size_t o = 0; o < e.outer; ++o, x += e.count * e.inner, y += e.inner) {
    if (e.inner == 1) {
      *y = factor * sum_of(x, e.count);
      continue;
    }
    std::fill_n(y, e.inner, 0.0f);
    for (std::size_t i = 0; i < e.count; ++i) {
      for (std::size_t j = 0; j < e.inner; ++j) y[j] += x[i * e.inner + j];
    }
    if (factor == 1.0f) continue;
    for (std::size_t j = 0; j < e.inner; ++j) y[j] *= factor;
  }
}

void backward_row(const float* __restrict dy, float* __restrict dx, const Extents& e,
                  float factor) {
  for (std::size_t o = 0; o < e.outer; ++o, dy += e.inner) {
    if (e.inner == 1) {
      dx = std::fill_n(dx, e.count, factor * *dy);
      continue;
    }
    for (std::size_t i = 0; i < e.count; ++i, dx += e.inner) {
      for (std::size_t j = 0; j < e.inner; ++j) dx[j] = factor * dy[j];
    }
  }
}

void reduce_sum_fwd_kernel(const OpContext& ctx, const ReduceSumFwd& op) {
  const auto factor = static_cast<float>(op.factor);
  const Extents e = extents(op.x, op.axis);
  parallel_for(*ctx.pool, op.x.rows(), row_grain(op.x.row_size()),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row) {
                   forward_row(op.x.row<float>(row), op.y.row<float>(row), e, factor);
                 }
               });
}

void reduce_sum_bwd_kernel(const OpContext& ctx, const ReduceSumBwd& op) {
  const auto factor = static_cast<float>(op.factor);
  const Extents e = extents(op.dx, op.axis);
  parallel_for(*ctx.pool, op.dx.rows(), row_grain(op.dx.row_size()),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row) {
                   backward_row(op.dy.row<float>(row), op.dx.row<float>(row), e, factor);
                 }
               });
}

const OpRegistration<ReduceSumFwd> reduce_sum_fwd_cpu{DeviceType::Cpu, &reduce_sum_fwd_kernel};
const OpRegistration<ReduceSumBwd> reduce_sum_bwd_cpu{DeviceType::Cpu, &reduce_sum_bwd_kernel};

}  // namespace
}  // namespace hugectr
