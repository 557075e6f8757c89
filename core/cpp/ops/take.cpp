// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/take.hpp"

#include <algorithm>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/axis_runs.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {
namespace {

void check_take(const char* op, const TensorRef& x, const TensorRef& y,
                const std::vector<std::int64_t>& indices, std::int64_t axis) {
  check_real(op, "the whole", x);
  HCTR_CHECK(axis >= 0 && axis < static_cast<std::int64_t>(x.shape.size()), op, ": axis is ", axis,
             ", must be in [0, ", x.shape.size(), ")");
  Shape wanted = x.shape;
  std::size_t& size = wanted[static_cast<std::size_t>(axis)];
  HCTR_CHECK(!indices.empty(), op, ": indices is empty");
  for (const std::int64_t index : indices) {
    HCTR_CHECK(index >= 0 && static_cast<std::size_t>(index) < size, op, ": index ", index,
               " is not in [0, ", size, ")");
  }
  size = indices.size();
  check_real(op, "what is picked", y, x.dtype, wanted);
}

}  // namespace

void TakeFwd::check() const { check_take(kName, x, y, indices, axis); }
void TakeBwd::check() const { check_take(kName, dx, dy, indices, axis); }

namespace {

void take_fwd_kernel(const OpContext& ctx, const TakeFwd& op) {
  const AxisRuns x(op.x, op.axis), y(op.y, op.axis);
  const float* from = op.x.ptr<float>();
  float* to = op.y.ptr<float>();
  parallel_for(
      *ctx.pool, y.blocks * y.count, row_grain(y.inner), [&](std::size_t begin, std::size_t end) {
        for (std::size_t run = begin; run < end; ++run) {
          const std::size_t block = run / y.count, i = run % y.count;
          std::copy_n(
              from + x.block_start(block) + static_cast<std::size_t>(op.indices[i]) * x.step,
              y.inner, to + y.block_start(block) + i * y.step);
        }
      });
}

void take_bwd_kernel(const OpContext& ctx, const TakeBwd& op) {
  const AxisRuns dx(op.dx, op.axis), dy(op.dy, op.axis);
  const float* from = op.dy.ptr<float>();
  float* to = op.dx.ptr<float>();
  // A piece is some columns of one block, so that every sum is taken by one thread, in order.
  const std::size_t pieces = dx.blocks == 1 ? std::max<std::size_t>(1, dx.inner / 64) : 1;
  const std::size_t width = (dx.inner + pieces - 1) / pieces;
  parallel_for(*ctx.pool, dx.blocks * pieces, row_grain(width * (dx.count + dy.count)),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t piece = begin; piece < end; ++piece) {
                   const std::size_t block = piece / pieces, column = piece % pieces * width;
                   if (column >= dx.inner) continue;
                   const std::size_t n = std::min(width, dx.inner - column);
                   float* sums = to + dx.block_start(block) + column;
                   for (std::size_t s = 0; s < dx.count; ++s)
                     std::fill_n(sums + s * dx.step, n, 0.0f);
                   const float* parts = from + dy.block_start(block) + column;
                   for (std::size_t i = 0; i < dy.count; ++i) {
                     float* __restrict sum =
                         sums + static_cast<std::size_t>(op.indices[i]) * dx.step;
                     const float* __restrict part = parts + i * dy.step;
                     for (std::size_t j = 0; j < n; ++j) sum[j] += part[j];
                   }
                 }
               });
}

const OpRegistration<TakeFwd> take_fwd_cpu{DeviceType::Cpu, &take_fwd_kernel};
const OpRegistration<TakeBwd> take_bwd_cpu{DeviceType::Cpu, &take_bwd_kernel};

}  // namespace
}  // namespace hugectr
