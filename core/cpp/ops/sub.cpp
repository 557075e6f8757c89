// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/sub.hpp"

#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void SubFwd::check() const {
  check_real(kName, "y", y);
  check_real(kName, "a", a, y.dtype, y.shape);
  check_real(kName, "b", b, y.dtype, y.shape);
}

void SubBwd::check() const {
  check_real(kName, "dy", dy);
  check_real(kName, "db", db, dy.dtype, dy.shape);
}

namespace {

void sub_fwd_kernel(const OpContext& ctx, const SubFwd& op) {
  const bool flat = op.a.contiguous() && op.b.contiguous() && op.y.contiguous();
  for_each_span(*ctx.pool, op.y.rows(), op.y.row_size(), flat,
                [&](std::size_t row, std::size_t column, std::size_t count) {
                  const float* a = op.a.row<float>(row) + column;
                  const float* b = op.b.row<float>(row) + column;
                  float* y = op.y.row<float>(row) + column;
                  for (std::size_t j = 0; j < count; ++j) y[j] = a[j] - b[j];
                });
}

void sub_bwd_kernel(const OpContext& ctx, const SubBwd& op) {
  const bool flat = op.dy.contiguous() && op.db.contiguous();
  for_each_span(*ctx.pool, op.dy.rows(), op.dy.row_size(), flat,
                [&](std::size_t row, std::size_t column, std::size_t count) {
                  const float* dy = op.dy.row<float>(row) + column;
                  float* db = op.db.row<float>(row) + column;
                  for (std::size_t j = 0; j < count; ++j) db[j] = -dy[j];
                });
}

const OpRegistration<SubFwd> sub_fwd_cpu{DeviceType::Cpu, &sub_fwd_kernel};
const OpRegistration<SubBwd> sub_bwd_cpu{DeviceType::Cpu, &sub_bwd_kernel};

}  // namespace
}  // namespace hugectr
