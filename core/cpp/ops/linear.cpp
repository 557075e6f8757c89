// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/linear.hpp"

#include <algorithm>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/gemm.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/relu.hpp"

namespace hugectr {
namespace {

// Shapes of x and w, and of `y` (any tensor shaped like the result).
void check_product(const char* op, const TensorRef& x, const TensorRef& w, const char* name,
                   const TensorRef& y) {
  check_real(op, "x", x);
  HCTR_CHECK(x.shape.size() >= 2, op, ": x has shape ", to_string(x.shape),
             ", must be (batch, n) or (batch, s, n)");
  HCTR_CHECK(w.shape.size() == 2 && w.shape[0] == x.shape.back(), op, ": w has shape ",
             to_string(w.shape), ", must be (", x.shape.back(), ", outputs) for x of shape ",
             to_string(x.shape));
  check_packed_real(op, "w", w, x.dtype, w.shape);
  Shape wanted = x.shape;
  wanted.back() = w.shape[1];
  check_real(op, name, y, x.dtype, wanted);
}

void check_rows(const char* op, const char* name, const TensorRef& ref) {
  HCTR_CHECK(ref.shape.size() == 2 || ref.contiguous(), op, ": ", name, " of shape ",
             to_string(ref.shape),
             " must be contiguous (only two-dimensional ones may be strided)");
}

}  // namespace

void LinearFwd::check() const {
  check_product(kName, x, w, "y", y);
  check_rows(kName, "x", x);
  check_rows(kName, "y", y);
  if (!b.empty()) check_packed_real(kName, "b", b, x.dtype, {w.shape[1]});
}

void LinearBwd::check() const {
  check_product(kName, x, w, "dy", dy);
  check_rows(kName, "x", x);
  check_rows(kName, "dy", dy);
  check_packed_float(kName, "dw", dw, w.shape);
  if (!dx.empty()) {
    check_real(kName, "dx", dx, x.dtype, x.shape);
    check_rows(kName, "dx", dx);
  }
  if (activation == Activation::Relu) {
    HCTR_CHECK(!y.empty() && !dz.empty(), kName, ": activation Relu needs the tensors y and dz");
    check_real(kName, "y", y, x.dtype, dy.shape);
    check_real(kName, "dz", dz, x.dtype, dy.shape);
    check_rows(kName, "y", y);
    check_rows(kName, "dz", dz);
  }
  if (!db.empty()) {
    check_packed_float(kName, "db", db, {w.shape[1]});
    HCTR_CHECK(!partial.empty(), kName, ": db needs the scratch tensor partial");
    check_packed_float(kName, "partial", partial, {partial_rows(Matrix(dy).rows), w.shape[1]});
  }
}

namespace {

void linear_fwd_kernel(const OpContext& context, const LinearFwd& op) {
  const Matrix y(op.y);
  const bool relu_follows = op.activation == Activation::Relu;
  const float* bias = op.b.empty() ? nullptr : op.b.ptr<float>();
  GemmEpilogue epilogue;
  if (bias != nullptr || relu_follows) {
    epilogue = [&](std::size_t row_begin, std::size_t row_end, std::size_t begin, std::size_t end) {
      for (std::size_t r = row_begin; r < row_end; ++r) {
        float* __restrict out = y.row(r);
        if (bias != nullptr && relu_follows) {
          for (std::size_t j = begin; j < end; ++j) out[j] = relu(out[j] + bias[j]);
        } else if (bias != nullptr) {
          for (std::size_t j = begin; j < end; ++j) out[j] += bias[j];
        } else {
          for (std::size_t j = begin; j < end; ++j) out[j] = relu(out[j]);
        }
      }
    };
  }
  gemm(*context.pool, GemmArgs{.a = op.x, .b = op.w, .c = op.y}, epilogue);
}

// One row of dz (when there is an activation) and its part of the bias gradient (when wanted).
void gradient_row(const float* y, const float* dy, float* dz, float* __restrict sum,
                  std::size_t n) {
  if (dz != nullptr) {
    for (std::size_t j = 0; j < n; ++j) dz[j] = relu_gradient(y[j], dy[j]);
    dy = dz;
  }
  if (sum != nullptr) {
    for (std::size_t j = 0; j < n; ++j) sum[j] += dy[j];
  }
}

// dz and db in one pass over the rows.
void linear_bwd_elements(ThreadPool& pool, const LinearBwd& op) {
  const bool masked = op.activation == Activation::Relu;
  if (!masked && op.db.empty()) return;
  const Matrix y(op.y), dy(op.dy), dz(op.dz);
  const std::size_t piece = samples_per_partial(dy.rows);
  parallel_for(pool, dy.rows, piece, [&](std::size_t begin, std::size_t end) {
    float* sum = op.db.empty() ? nullptr : op.partial.row<float>(begin / piece);
    if (sum != nullptr) std::fill_n(sum, dy.columns, 0.0f);
    for (std::size_t r = begin; r < end; ++r) {
      gradient_row(masked ? y.row(r) : nullptr, dy.row(r), masked ? dz.row(r) : nullptr, sum,
                   dy.columns);
    }
  });
  if (!op.db.empty()) add_partials(pool, op.partial, 0, dy.columns, op.db.ptr<float>());
}

void linear_bwd_kernel(const OpContext& context, const LinearBwd& op) {
  linear_bwd_elements(*context.pool, op);
  const TensorRef& dz = op.activation == Activation::Relu ? op.dz : op.dy;
  if (!op.dx.empty()) {
    gemm(*context.pool, GemmArgs{.transpose_b = true, .a = dz, .b = op.w, .c = op.dx});
  }
  gemm(*context.pool, GemmArgs{.transpose_a = true, .a = op.x, .b = dz, .c = op.dw, .beta = 1.0f});
}

const OpRegistration<LinearFwd> linear_fwd_cpu{DeviceType::Cpu, &linear_fwd_kernel};
const OpRegistration<LinearBwd> linear_bwd_cpu{DeviceType::Cpu, &linear_bwd_kernel};

}  // namespace
}  // namespace hugectr
