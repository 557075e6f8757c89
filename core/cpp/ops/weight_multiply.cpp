// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/weight_multiply.hpp"

#include <cstring>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {
namespace {

void check_shapes(const char* op, const TensorRef& x, const TensorRef& w, const char* y_name,
                  const TensorRef& y) {
  check_real(op, "x", x);
  HCTR_CHECK(x.shape.size() == 2 && w.shape.size() == 2 && x.shape[1] == w.shape[0], op,
             ": x has shape ", to_string(x.shape), " and w ", to_string(w.shape),
             ", must be (batch, slots) and (slots, dim)");
  check_packed_float(op, "w", w, w.shape);
  check_real(op, y_name, y, x.dtype, {x.shape[0], w.size()});
}

}  // namespace

void WeightMultiplyFwd::check() const { check_shapes(kName, x, w, "y", y); }

void WeightMultiplyBwd::check() const {
  check_shapes(kName, x, w, "dy", dy);
  if (!dx.empty()) check_real(kName, "dx", dx, x.dtype, x.shape);
  check_packed_float(kName, "dw", dw, w.shape);
  check_packed_float(kName, "partial", partial, {partial_rows(x.rows()), w.size()});
}

namespace {

void weight_multiply_fwd_kernel(const OpContext& ctx, const WeightMultiplyFwd& op) {
  const std::size_t slots = op.w.shape[0], dim = op.w.shape[1];
  parallel_for(*ctx.pool, op.x.rows(), row_grain(slots * dim),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row) {
                   const float* __restrict x = op.x.row<float>(row);
                   const float* __restrict w = op.w.ptr<float>();
                   float* __restrict y = op.y.row<float>(row);
                   for (std::size_t s = 0; s < slots; ++s, w += dim, y += dim) {
                     const float scale = x[s];
                     for (std::size_t j = 0; j < dim; ++j) y[j] = scale * w[j];
                   }
                 }
               });
}

// One sample: its part of dw and, unless dx is null, its dx, while dy is in the L1 cache.
void backward_row(const float* __restrict x, const float* __restrict w, const float* __restrict dy,
                  float* dx, float* __restrict dw, std::size_t slots, std::size_t dim) {
  for (std::size_t s = 0; s < slots; ++s, w += dim, dy += dim, dw += dim) {
    const float scale = x[s];
    for (std::size_t j = 0; j < dim; ++j) dw[j] += scale * dy[j];
    if (dx == nullptr) continue;
    float sum = 0.0f;
    for (std::size_t j = 0; j < dim; ++j) sum += dy[j] * w[j];
    dx[s] = sum;
  }
}

void weight_multiply_bwd_kernel(const OpContext& ctx, const WeightMultiplyBwd& op) {
  const std::size_t slots = op.w.shape[0], dim = op.w.shape[1];
  const std::size_t samples = samples_per_partial(op.x.rows());
  parallel_for(*ctx.pool, op.x.rows(), samples, [&](std::size_t begin, std::size_t end) {
    float* partial = op.partial.row<float>(begin / samples);
    std::memset(partial, 0, slots * dim * sizeof(float));
    for (std::size_t row = begin; row < end; ++row) {
      backward_row(op.x.row<float>(row), op.w.ptr<float>(), op.dy.row<float>(row),
                   op.dx.empty() ? nullptr : op.dx.row<float>(row), partial, slots, dim);
    }
  });
  add_partials(*ctx.pool, op.partial, 0, op.w.size(), op.dw.ptr<float>());
}

const OpRegistration<WeightMultiplyFwd> weight_multiply_fwd_cpu{DeviceType::Cpu,
                                                                &weight_multiply_fwd_kernel};
const OpRegistration<WeightMultiplyBwd> weight_multiply_bwd_cpu{DeviceType::Cpu,
                                                                &weight_multiply_bwd_kernel};

}  // namespace
}  // namespace hugectr
