// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/reshape.hpp"

#include <cstring>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void ReshapeFwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "y", y, x.dtype, y.shape);
  HCTR_CHECK(x.size() == y.size(), kName, ": x ", to_string(x.shape), " has ", x.size(),
             " elements, y ", to_string(y.shape), " has ", y.size());
}

namespace {

// Copies flat elements [begin, end) in runs that leave neither a row of x nor one of y.
void copy_runs(const ReshapeFwd& op, std::size_t begin, std::size_t end) {
  const std::size_t x_size = op.x.contiguous() ? op.x.size() : op.x.row_size();
  const std::size_t y_size = op.y.contiguous() ? op.y.size() : op.y.row_size();
  const float* x = op.x.ptr<float>();
  float* y = op.y.ptr<float>();
  while (begin < end) {
    const std::size_t x_column = begin % x_size, y_column = begin % y_size;
    const std::size_t count = std::min({end - begin, x_size - x_column, y_size - y_column});
    std::memcpy(y + begin / y_size * op.y.row_stride + y_column,
                x + begin / x_size * op.x.row_stride + x_column, count * sizeof(float));
    begin += count;
  }
}

void reshape_fwd_kernel(const OpContext& ctx, const ReshapeFwd& op) {
  parallel_for(*ctx.pool, op.x.size(), kSpanElements,
               [&](std::size_t begin, std::size_t end) { copy_runs(op, begin, end); });
}

const OpRegistration<ReshapeFwd> reshape_fwd_cpu{DeviceType::Cpu, &reshape_fwd_kernel};

}  // namespace
}  // namespace hugectr
