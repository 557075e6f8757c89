// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/gru.hpp"

#include <algorithm>
#include <vector>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/gemm.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {
namespace {

void check_states(const char* op, const TensorRef& w, const TensorRef& y, const TensorRef& gates) {
  check_real(op, "y", y);
  HCTR_CHECK(y.shape.size() == 3, op, ": y has shape ", to_string(y.shape),
             ", must have (batch, steps, units)");
  const std::size_t units = y.shape[2], rows = y.shape[0] * y.shape[1];
  check_packed_real(op, "w", w, y.dtype, {3 * units, units});
  check_real(op, "gates", gates, y.dtype, {rows, 4 * units});
}

}  // namespace

void GruFwd::check() const {
  check_states(kName, w, y, gates);
  const std::size_t units = y.shape[2], rows = y.shape[0] * y.shape[1];
  check_real(kName, "x", x, y.dtype, {rows, 3 * units});
  check_packed_float(kName, "bias", bias, {3 * units});
}

void GruBwd::check() const {
  check_states(kName, w, y, gates);
  const std::size_t units = y.shape[2], rows = y.shape[0] * y.shape[1];
  check_real(kName, "dy", dy, y.dtype, y.shape);
  check_real(kName, "dx", dx, y.dtype, {rows, 3 * units});
  check_real(kName, "ds", ds, y.dtype, {rows, 3 * units});
  check_real(kName, "before", before, y.dtype, {rows, units});
  check_packed_float(kName, "dbias", dbias, {3 * units});
  check_packed_float(kName, "partial", partial, {gru_slices(y.shape[0]), 3 * units});
}

namespace {

// Samples [begin, begin + rows) of a slice, and their rows in tensors of all steps.
struct Slice {
  Slice(std::size_t number, const TensorRef& y)
      : begin(number * kGruSlice),
        rows(std::min(kGruSlice, y.rows() - begin)),
        steps(y.shape[1]),
        units(y.shape[2]) {}
  std::size_t begin, rows, steps, units;

  float* of_step(const TensorRef& ref, std::size_t i, std::size_t t) const {
    return ref.row<float>((begin + i) * steps + t);
  }
  float* state(const TensorRef& y, std::size_t i, std::size_t t) const {
    return y.row<float>(begin + i) + t * units;
  }
};

Matrix matrix_of(float* data, std::size_t rows, std::size_t columns, std::size_t stride) {
  Matrix matrix;
  matrix.data = data;
  matrix.dtype = TensorScalarType::Float32;
  matrix.rows = rows;
  matrix.columns = columns;
  matrix.stride = stride;
  return matrix;
}

void forward_slice(const GruFwd& op, const Slice& slice, bool rows_alike) {
  const std::size_t h = slice.units;
  thread_local std::vector<float> products;
  products.assign(slice.rows * 3 * h, 0.0f);
  const float* bias = op.bias.ptr<float>();
  for (std::size_t t = 0; t < slice.steps; ++t) {
    if (t > 0) {
      gemm_in_thread({.transpose_b = true,
                      .a = matrix_of(slice.state(op.y, 0, t - 1), slice.rows, h, op.y.row_stride),
                      .b = op.w,
                      .c = matrix_of(products.data(), slice.rows, 3 * h, 3 * h),
                      .rows_alike = rows_alike});
    }
    for (std::size_t i = 0; i < slice.rows; ++i) {
      const float* x = slice.of_step(op.x, i, t);
      const float* s = products.data() + i * 3 * h;
      const float* before = t > 0 ? slice.state(op.y, i, t - 1) : nullptr;
      float* y = slice.state(op.y, i, t);
      float* gates = slice.of_step(op.gates, i, t);
      for (std::size_t u = 0; u < h; ++u) {
        const GruUnit unit =
            GruUnit::step({x[u] + bias[u], x[h + u] + bias[h + u], x[2 * h + u] + bias[2 * h + u]},
                          {s[u], s[h + u], s[2 * h + u]}, before == nullptr ? 0.0f : before[u]);
        y[u] = unit.state;
        gates[u] = unit.r;
        gates[h + u] = unit.z;
        gates[2 * h + u] = unit.n;
        gates[3 * h + u] = s[2 * h + u];
      }
    }
  }
}

void backward_slice(const GruBwd& op, const Slice& slice, float* __restrict sums) {
  const std::size_t h = slice.units;
  thread_local std::vector<float> carried;  // gradient of the state, from later steps
  carried.assign(slice.rows * h, 0.0f);
  std::fill_n(sums, 3 * h, 0.0f);
  for (std::size_t t = slice.steps; t-- > 0;) {
    for (std::size_t i = 0; i < slice.rows; ++i) {
      const float* gates = slice.of_step(op.gates, i, t);
      const float* y = t > 0 ? slice.state(op.y, i, t - 1) : nullptr;
      const float* dy = slice.state(op.dy, i, t);
      float *dx = slice.of_step(op.dx, i, t), *ds = slice.of_step(op.ds, i, t);
      float* before = slice.of_step(op.before, i, t);
      float* carry = carried.data() + i * h;
      for (std::size_t u = 0; u < h; ++u) {
        before[u] = y == nullptr ? 0.0f : y[u];
        const float r = gates[u], z = gates[h + u], d = carry[u] + dy[u];
        const GruUnitGradient g =
            GruUnitGradient::step(r, z, gates[2 * h + u], gates[3 * h + u], before[u], d);
        dx[u] = ds[u] = g.r;
        dx[h + u] = ds[h + u] = g.z;
        dx[2 * h + u] = g.n;
        ds[2 * h + u] = g.n * r;
        carry[u] = d * z;
        sums[u] += g.r;
        sums[h + u] += g.z;
        sums[2 * h + u] += g.n;
      }
    }
    gemm_in_thread({.a = matrix_of(slice.of_step(op.ds, 0, t), slice.rows, 3 * h,
                                   op.ds.row_stride * slice.steps),
                    .b = op.w,
                    .c = matrix_of(carried.data(), slice.rows, h, h),
                    .beta = 1.0f});
  }
}

void gru_fwd_kernel(const OpContext& ctx, const GruFwd& op) {
  parallel_for(*ctx.pool, gru_slices(op.y.rows()), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) forward_slice(op, Slice(i, op.y), ctx.rows_alike);
  });
}

void gru_bwd_kernel(const OpContext& ctx, const GruBwd& op) {
  parallel_for(*ctx.pool, gru_slices(op.y.rows()), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      backward_slice(op, Slice(i, op.y), op.partial.row<float>(i));
    }
  });
  add_partials(*ctx.pool, op.partial, 0, op.dbias.size(), op.dbias.ptr<float>());
}

const OpRegistration<GruFwd> gru_fwd_cpu{DeviceType::Cpu, &gru_fwd_kernel};
const OpRegistration<GruBwd> gru_bwd_cpu{DeviceType::Cpu, &gru_bwd_kernel};

}  // namespace
}  // namespace hugectr
