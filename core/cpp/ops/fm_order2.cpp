// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/fm_order2.hpp"

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/lanes.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {
namespace {

void check_shapes(const char* op, const TensorRef& x, const char* y_name, const TensorRef& y) {
  check_real(op, "x", x);
  check_real(op, y_name, y, x.dtype, y.shape);
  HCTR_CHECK(y.shape.size() == 2 && y.shape[0] == x.shape[0] && y.shape[1] > 0 &&
                 x.row_size() % y.shape[1] == 0,
             op, ": x has shape ", to_string(x.shape), " and ", y_name, " ", to_string(y.shape),
             ", must be (batch, k * dim) and (batch, dim)");
}

}  // namespace

void FmOrder2Fwd::check() const { check_shapes(kName, x, "y", y); }

void FmOrder2Bwd::check() const {
  check_shapes(kName, x, "dy", dy);
  check_real(kName, "dx", dx, x.dtype, x.shape);
}

namespace {

// Columns go eight at a time with their sums in registers; the rest one by one.
void forward_row(const float* __restrict x, float* __restrict y, std::size_t vectors,
                 std::size_t dim) {
  std::size_t j = 0;
  for (; j + kLanes <= dim; j += kLanes) {
    Lanes before{}, pairs{};
    for (std::size_t i = 0; i < vectors; ++i) {
      const Lanes v = load_lanes(x + i * dim + j);
      pairs += v * before;
      before += v;
    }
    store_lanes(y + j, pairs);
  }
  for (; j < dim; ++j) {
    float before = 0.0f, pairs = 0.0f;
    for (std::size_t i = 0; i < vectors; ++i) {
      const float v = x[i * dim + j];
      pairs += v * before;
      before += v;
    }
    y[j] = pairs;
  }
}

void backward_row(const float* __restrict x, const float* __restrict dy, float* __restrict dx,
                  std::size_t vectors, std::size_t dim) {
  std::size_t j = 0;
  for (; j + kLanes <= dim; j += kLanes) {
    Lanes sum{};
    for (std::size_t i = 0; i < vectors; ++i) sum += load_lanes(x + i * dim + j);
    const Lanes scale = load_lanes(dy + j);
    for (std::size_t i = 0; i < vectors; ++i) {
      store_lanes(dx + i * dim + j, scale * (sum - load_lanes(x + i * dim + j)));
    }
  }
  for (; j < dim; ++j) {
    float sum = 0.0f;
    for (std::size_t i = 0; i < vectors; ++i) sum += x[i * dim + j];
    for (std::size_t i = 0; i < vectors; ++i) dx[i * dim + j] = dy[j] * (sum - x[i * dim + j]);
  }
}

void fm_order2_fwd_kernel(const OpContext& ctx, const FmOrder2Fwd& op) {
  const std::size_t dim = op.y.shape[1], vectors = op.x.row_size() / dim;
  parallel_for(*ctx.pool, op.x.rows(), row_grain(op.x.row_size()),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row) {
                   forward_row(op.x.row<float>(row), op.y.row<float>(row), vectors, dim);
                 }
               });
}

void fm_order2_bwd_kernel(const OpContext& ctx, const FmOrder2Bwd& op) {
  const std::size_t dim = op.dy.shape[1], vectors = op.x.row_size() / dim;
  parallel_for(*ctx.pool, op.x.rows(), row_grain(op.x.row_size()),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row) {
                   backward_row(op.x.row<float>(row), op.dy.row<float>(row), op.dx.row<float>(row),
                                vectors, dim);
                 }
               });
}

const OpRegistration<FmOrder2Fwd> fm_order2_fwd_cpu{DeviceType::Cpu, &fm_order2_fwd_kernel};
const OpRegistration<FmOrder2Bwd> fm_order2_bwd_cpu{DeviceType::Cpu, &fm_order2_bwd_kernel};

}  // namespace
}  // namespace hugectr
