// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/add.hpp"

#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void AddFwd::check() const {
  check_real(kName, "y", y);
  HCTR_CHECK(!xs.empty(), kName, ": needs at least one x");
  for (const TensorRef& x : xs) check_real(kName, "xs", x, y.dtype, y.shape);
}

namespace {

// Elements summed in a local block, so that y may be any of xs and is written once.
constexpr std::size_t kAddBlock = 256;

void add_span(const std::vector<const float*>& xs, float* y, std::size_t count) {
  float sum[kAddBlock];
  for (std::size_t begin = 0; begin < count; begin += kAddBlock) {
    const std::size_t n = std::min(kAddBlock, count - begin);
    for (std::size_t j = 0; j < n; ++j) sum[j] = xs[0][begin + j];
    for (std::size_t i = 1; i < xs.size(); ++i) {
      const float* x = xs[i] + begin;
      for (std::size_t j = 0; j < n; ++j) sum[j] += x[j];
    }
    for (std::size_t j = 0; j < n; ++j) y[begin + j] = sum[j];
  }
}

void add_fwd_kernel(const OpContext& ctx, const AddFwd& op) {
  bool flat = op.y.contiguous();
  for (const TensorRef& x : op.xs) flat = flat && x.contiguous();
  for_each_span(*ctx.pool, op.y.rows(), op.y.row_size(), flat,
                [&](std::size_t row, std::size_t column, std::size_t count) {
                  thread_local std::vector<const float*> xs;
                  xs.clear();
                  for (const TensorRef& x : op.xs) xs.push_back(x.row<float>(row) + column);
                  add_span(xs, op.y.row<float>(row) + column, count);
                });
}

const OpRegistration<AddFwd> add_fwd_cpu{DeviceType::Cpu, &add_fwd_kernel};

}  // namespace
}  // namespace hugectr
