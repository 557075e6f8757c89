// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/projected_cross.hpp"

#include <cstring>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/gemm.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {
namespace {

void check_shapes(const char* op, const TensorRef& x0, const TensorRef& x, const TensorRef& u,
                  const TensorRef& v, const TensorRef& h, const TensorRef& z) {
  check_real(op, "x0", x0);
  HCTR_CHECK(x0.shape.size() == 2 && u.shape.size() == 2 && u.shape[0] == x0.shape[1], op,
             ": x0 has shape ", to_string(x0.shape), " and u ", to_string(u.shape),
             ", must be (batch, n) and (n, k)");
  check_real(op, "x", x, x0.dtype, x0.shape);
  check_packed_real(op, "u", u, x0.dtype, u.shape);
  check_packed_real(op, "v", v, x0.dtype, {u.shape[1], u.shape[0]});
  check_real(op, "h", h, x0.dtype, {x0.shape[0], u.shape[1]});
  check_real(op, "z", z, x0.dtype, x0.shape);
}

}  // namespace

void ProjectedCrossFwd::check() const {
  check_shapes(kName, x0, x, u, v, h, z);
  check_packed_real(kName, "bias", bias, x0.dtype, {x0.shape[1]});
  check_real(kName, "y", y, x0.dtype, x0.shape);
}

void ProjectedCrossBwd::check() const {
  check_shapes(kName, x0, x, u, v, h, z);
  check_real(kName, "dy", dy, x0.dtype, x0.shape);
  if (!dx0.empty()) check_real(kName, "dx0", dx0, x0.dtype, x0.shape);
  if (!dx.empty()) check_real(kName, "dx", dx, x0.dtype, x0.shape);
  HCTR_CHECK(!x_is_x0 || dx.empty(), kName, ": dx must be empty when x_is_x0");
  check_packed_float(kName, "du", du, u.shape);
  check_packed_float(kName, "dv", dv, v.shape);
  check_packed_float(kName, "dbias", dbias, {x0.shape[1]});
  check_real(kName, "dz", dz, x0.dtype, x0.shape);
  check_real(kName, "dh", dh, x0.dtype, h.shape);
  check_packed_float(kName, "partial", partial, {partial_rows(x0.rows()), x0.shape[1]});
}

namespace {

GemmArgs product(const TensorRef& a, bool transpose_a, const TensorRef& b, bool transpose_b,
                 const TensorRef& c, float beta) {
  return {
      .transpose_a = transpose_a, .transpose_b = transpose_b, .a = a, .b = b, .c = c, .beta = beta};
}

void projected_cross_fwd_kernel(const OpContext& ctx, const ProjectedCrossFwd& op) {
  const auto forward = [&](const TensorRef& a, const TensorRef& b, const TensorRef& c) {
    return GemmArgs{.a = a, .b = b, .c = c, .rows_alike = ctx.rows_alike};
  };
  gemm(*ctx.pool, forward(op.x, op.u, op.h));
  gemm(*ctx.pool, forward(op.h, op.v, op.z),
       [&](std::size_t row_begin, std::size_t row_end, std::size_t begin, std::size_t end) {
         const float* __restrict bias = op.bias.ptr<float>();
         for (std::size_t row = row_begin; row < row_end; ++row) {
           const float *x0 = op.x0.row<float>(row), *x = op.x.row<float>(row);
           float* __restrict z = op.z.row<float>(row);
           float* __restrict y = op.y.row<float>(row);
           for (std::size_t j = begin; j < end; ++j) {
             z[j] += bias[j];
             y[j] = x0[j] * z[j] + x[j];
           }
         }
       });
}

// dz, its sum over the piece of the batch, and dy's direct way into dx0.
void backward_row(const ProjectedCrossBwd& op, std::size_t row, float* __restrict sum) {
  const std::size_t n = op.x0.shape[1];
  const float* __restrict x0 = op.x0.row<float>(row);
  const float* __restrict dy = op.dy.row<float>(row);
  float* __restrict dz = op.dz.row<float>(row);
  for (std::size_t j = 0; j < n; ++j) {
    dz[j] = dy[j] * x0[j];
    sum[j] += dz[j];
  }
  if (op.dx0.empty()) return;
  const float* __restrict z = op.z.row<float>(row);
  float* __restrict dx0 = op.dx0.row<float>(row);
  const float one = op.x_is_x0 ? 1.0f : 0.0f;
  if (op.accumulate) {
    for (std::size_t j = 0; j < n; ++j) dx0[j] += dy[j] * (z[j] + one);
  } else {
    for (std::size_t j = 0; j < n; ++j) dx0[j] = dy[j] * (z[j] + one);
  }
}

void projected_cross_bwd_kernel(const OpContext& ctx, const ProjectedCrossBwd& op) {
  const std::size_t samples = samples_per_partial(op.x0.rows());
  parallel_for(*ctx.pool, op.x0.rows(), samples, [&](std::size_t begin, std::size_t end) {
    float* sum = op.partial.row<float>(begin / samples);
    std::memset(sum, 0, op.partial.row_size() * sizeof(float));
    for (std::size_t row = begin; row < end; ++row) backward_row(op, row, sum);
  });
  add_partials(*ctx.pool, op.partial, 0, op.dbias.size(), op.dbias.ptr<float>());
  gemm(*ctx.pool, product(op.dz, false, op.v, true, op.dh, 0.0f));
  gemm(*ctx.pool, product(op.h, true, op.dz, false, op.dv, 1.0f));
  gemm(*ctx.pool, product(op.x, true, op.dh, false, op.du, 1.0f));
  if (op.x_is_x0) {
    if (!op.dx0.empty()) gemm(*ctx.pool, product(op.dh, false, op.u, true, op.dx0, 1.0f));
    return;
  }
  if (op.dx.empty()) return;
  gemm(*ctx.pool, product(op.dh, false, op.u, true, op.dx, 0.0f),
       [&](std::size_t row_begin, std::size_t row_end, std::size_t begin, std::size_t end) {
         for (std::size_t row = row_begin; row < row_end; ++row) {
           const float* __restrict dy = op.dy.row<float>(row);
           float* __restrict dx = op.dx.row<float>(row);
           for (std::size_t j = begin; j < end; ++j) dx[j] += dy[j];
         }
       });
}

const OpRegistration<ProjectedCrossFwd> projected_cross_fwd_cpu{DeviceType::Cpu,
                                                                &projected_cross_fwd_kernel};
const OpRegistration<ProjectedCrossBwd> projected_cross_bwd_cpu{DeviceType::Cpu,
                                                                &projected_cross_bwd_kernel};

}  // namespace
}  // namespace hugectr
