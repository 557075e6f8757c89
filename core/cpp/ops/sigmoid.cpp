// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/sigmoid.hpp"

#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void SigmoidFwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "y", y, x.dtype, x.shape);
}

void SigmoidBwd::check() const {
  check_real(kName, "y", y);
  check_real(kName, "dy", dy, y.dtype, y.shape);
  check_real(kName, "dx", dx, y.dtype, y.shape);
}

namespace {

void sigmoid_fwd_kernel(const OpContext& ctx, const SigmoidFwd& op) {
  for_each_span(*ctx.pool, op.x.rows(), op.x.row_size(), op.x.contiguous() && op.y.contiguous(),
                [&](std::size_t row, std::size_t column, std::size_t count) {
                  const float* x = op.x.row<float>(row) + column;
                  float* y = op.y.row<float>(row) + column;
                  for (std::size_t i = 0; i < count; ++i) y[i] = sigmoid(x[i]);
                });
}

void sigmoid_bwd_kernel(const OpContext& ctx, const SigmoidBwd& op) {
  const bool flat = op.y.contiguous() && op.dy.contiguous() && op.dx.contiguous();
  for_each_span(*ctx.pool, op.y.rows(), op.y.row_size(), flat,
                [&](std::size_t row, std::size_t column, std::size_t count) {
                  const float* __restrict y = op.y.row<float>(row) + column;
                  const float* dy = op.dy.row<float>(row) + column;
                  float* dx = op.dx.row<float>(row) + column;
                  for (std::size_t i = 0; i < count; ++i) dx[i] = dy[i] * y[i] * (1.0f - y[i]);
                });
}

const OpRegistration<SigmoidFwd> sigmoid_fwd_cpu{DeviceType::Cpu, &sigmoid_fwd_kernel};
const OpRegistration<SigmoidBwd> sigmoid_bwd_cpu{DeviceType::Cpu, &sigmoid_bwd_kernel};

}  // namespace
}  // namespace hugectr
