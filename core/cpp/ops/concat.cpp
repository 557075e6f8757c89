// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/concat.hpp"

#include <cstring>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/axis_segments.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void ConcatFwd::check() const {
  check_real(kName, "y", y);
  check_axis(kName, "y", y, axis);
  HCTR_CHECK(!xs.empty(), kName, ": needs at least one x");
  std::size_t total = 0;
  for (const TensorRef& x : xs) {
    check_equal_but_axis(kName, x, y, axis);
    check_real(kName, "xs", x, y.dtype, x.shape);
    total += x.shape[static_cast<std::size_t>(axis)];
  }
  HCTR_CHECK(total == y.shape[static_cast<std::size_t>(axis)], kName, ": sizes of xs at axis ",
             axis, " sum to ", total, ", y has ", y.shape[static_cast<std::size_t>(axis)]);
}

namespace {

void concat_fwd_kernel(const OpContext& ctx, const ConcatFwd& op) {
  const std::size_t outer = segments(op.y, op.axis);
  const std::size_t row_size = op.y.row_size();
  parallel_for(*ctx.pool, op.y.rows(), row_grain(row_size),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row) {
                   float* y = op.y.row<float>(row);
                   for (std::size_t s = 0; s < outer; ++s) {
                     for (const TensorRef& x : op.xs) {
                       const std::size_t count = x.row_size() / outer;
                       std::memcpy(y, x.row<float>(row) + s * count, count * sizeof(float));
                       y += count;
                     }
                   }
                 }
               });
}

const OpRegistration<ConcatFwd> concat_fwd_cpu{DeviceType::Cpu, &concat_fwd_kernel};

}  // namespace
}  // namespace hugectr
