// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/linear.hpp"

#include <algorithm>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/elementwise/relu.hpp"
#include "core/cpp/ops/gemm.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/float8_factor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

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

// What `padded` and `dx_padded` say of a tensor's memory.
void check_padding(const char* op, const char* name, const TensorRef& ref) {
  const std::size_t whole = (ref.shape.back() + 7) / 8 * 8;
  HCTR_CHECK(ref.shape.size() == 2 && ref.row_stride >= whole, op, ": ", name, " of shape ",
             to_string(ref.shape), " with rows ", ref.row_stride,
             " elements apart has no room for rows of ", whole);
}

// A bias gradient over `columns` columns and its scratch.
void check_sums(const char* op, const char* name, const TensorRef& sums, const char* scratch_name,
                const TensorRef& scratch, std::size_t rows, std::size_t columns) {
  check_packed_float(op, name, sums, {columns});
  HCTR_CHECK(!scratch.empty(), op, ": ", name, " needs the scratch tensor ", scratch_name);
  check_packed_float(op, scratch_name, scratch, {partial_rows(rows), columns});
}

}  // namespace

void LinearFwd::check() const {
  check_product(kName, x, w, "y", y);
  check_rows(kName, "x", x);
  check_rows(kName, "y", y);
  if (!addend.empty()) {
    check_real(kName, "addend", addend, x.dtype, y.shape);
    check_rows(kName, "addend", addend);
  }
  if (!b.empty()) check_packed_real(kName, "b", b, x.dtype, {w.shape[1]});
  if (padded) check_padding(kName, "x", x);
}

void LinearBwd::check() const {
  check_product(kName, x, w, "dy", dy);
  check_rows(kName, "x", x);
  check_rows(kName, "dy", dy);
  check_packed_float(kName, "dw", dw, w.shape);
  if (!dx.empty()) {
    check_real(kName, "dx", dx, x.dtype, x.shape);
    check_rows(kName, "dx", dx);
    if (dx_padded) check_padding(kName, "dx", dx);
  }
  if (padded) check_padding(kName, "x", x);
  if (activation == Activation::Relu) {
    HCTR_CHECK(!y.empty() && !dz.empty(), kName, ": activation Relu needs the tensors y and dz");
    check_real(kName, "y", y, x.dtype, dy.shape);
    check_real(kName, "dz", dz, x.dtype, dy.shape);
    check_rows(kName, "y", y);
    check_rows(kName, "dz", dz);
  }
  const std::size_t rows = Matrix(dy).rows;
  if (!db.empty()) check_sums(kName, "db", db, "partial", partial, rows, w.shape[1]);
  if (!db_below.empty()) {
    HCTR_CHECK(below == Activation::Relu && !dx.empty(), kName,
               ": db_below needs dx and what is below to be Relu");
    check_sums(kName, "db_below", db_below, "partial_below", partial_below, rows, w.shape[0]);
  }
}

namespace {

void linear_fwd_kernel(const OpContext& context, const LinearFwd& op) {
  const Matrix y(op.y), addend(op.addend);
  const bool relu_follows = op.activation == Activation::Relu;
  const float* bias = op.b.empty() ? nullptr : op.b.ptr<float>();
  GemmEpilogue epilogue;
  if (!addend.empty() || bias != nullptr || relu_follows) {
    epilogue = [&](std::size_t row_begin, std::size_t row_end, std::size_t begin, std::size_t end) {
      for (std::size_t r = row_begin; r < row_end; ++r) {
        float* __restrict out = y.row(r);
        if (!addend.empty()) {
          const float* __restrict more = addend.row(r);
          for (std::size_t j = begin; j < end; ++j) out[j] += more[j];
        }
        if (bias != nullptr && relu_follows) {
          for (std::size_t j = begin; j < end; ++j) out[j] = relu(out[j] + bias[j]);
        } else if (bias != nullptr) {
          for (std::size_t j = begin; j < end; ++j) out[j] += bias[j];
        } else if (relu_follows) {
          for (std::size_t j = begin; j < end; ++j) out[j] = relu(out[j]);
        }
      }
    };
  }
  const Float8Factor x(*context.pool, op.x, Float8::E4M3, op.fp8);
  const Float8Factor w(*context.pool, op.w, Float8::E4M3, op.fp8);
  gemm(*context.pool,
       GemmArgs{.a = x.matrix(), .b = w.matrix(), .c = y, .rows_alike = context.rows_alike},
       epilogue);
}

// dz = 0 where y <= 0, else dy, and its part of the bias gradient when `sum` is there. dz may be
// dy: the loops in place are loops of their own, because only they may promise that nothing
// overlaps.
void mask_row(const float* __restrict y, const float* dy, float* dz, float* __restrict sum,
              std::size_t n) {
  if (dy != dz) {
    const float* __restrict from = dy;
    float* __restrict to = dz;
    for (std::size_t j = 0; j < n; ++j) to[j] = relu_gradient(y[j], from[j]);
    for (std::size_t j = 0; sum != nullptr && j < n; ++j) sum[j] += to[j];
    return;
  }
  float* __restrict in_place = dz;
  if (sum == nullptr) {
    for (std::size_t j = 0; j < n; ++j) in_place[j] = relu_gradient(y[j], in_place[j]);
    return;
  }
  for (std::size_t j = 0; j < n; ++j) {
    in_place[j] = relu_gradient(y[j], in_place[j]);
    sum[j] += in_place[j];
  }
}

// The end of a bias gradient: its pieces in order.
void finish_sums(ThreadPool& pool, const TensorRef& partial, const TensorRef& sums,
                 bool overwrite) {
  auto* const target = sums.ptr<float>();
  if (overwrite) std::fill_n(target, sums.size(), 0.0f);
  add_partials(pool, partial, 0, sums.size(), target);
}

// dz and db in one pass over the rows.
void gradient_of_activation(ThreadPool& pool, const LinearBwd& op) {
  const bool masked = op.activation == Activation::Relu;
  if (!masked && op.db.empty()) return;
  const Matrix y(op.y), dy(op.dy), dz(op.dz);
  const std::size_t piece = samples_per_partial(dy.rows);
  parallel_for(pool, dy.rows, piece, [&](std::size_t begin, std::size_t end) {
    float* sum = op.db.empty() ? nullptr : op.partial.row<float>(begin / piece);
    if (sum != nullptr) std::fill_n(sum, dy.columns, 0.0f);
    for (std::size_t r = begin; r < end; ++r) {
      if (masked) {
        mask_row(y.row(r), dy.row(r), dz.row(r), sum, dy.columns);
      } else {
        const float* __restrict row = dy.row(r);
        for (std::size_t j = 0; j < dy.columns; ++j) sum[j] += row[j];
      }
    }
  });
  if (!op.db.empty()) finish_sums(pool, op.partial, op.db, op.overwrite);
}

// dx and db_below: the mask and the sums are taken of a piece of dx while it is in cache.
void gradient_of_input(ThreadPool& pool, const LinearBwd& op, const Matrix& gradient) {
  const Float8Factor w(pool, op.w, Float8::E4M3, op.fp8);
  const GemmArgs product{.transpose_b = true, .a = gradient, .b = w.matrix(), .c = op.dx};
  if (op.below == Activation::Non) return gemm(pool, product);
  const Matrix x(op.x), dx(op.dx);
  const std::size_t piece = samples_per_partial(dx.rows);
  const auto mask = [&](std::size_t row, std::size_t row_end, std::size_t begin, std::size_t end) {
    while (row < row_end) {  // a piece of the product is some pieces of the sums
      float* sum = nullptr;
      if (!op.db_below.empty()) {
        sum = op.partial_below.row<float>(row / piece) + begin;
        std::fill_n(sum, end - begin, 0.0f);
      }
      for (const std::size_t stop = std::min(row_end, row + piece); row < stop; ++row) {
        float* out = dx.row(row) + begin;
        mask_row(x.row(row) + begin, out, out, sum, end - begin);
      }
    }
  };
  gemm(pool, product, mask, piece);
  if (!op.db_below.empty()) {
    finish_sums(pool, op.partial_below, op.db_below, op.overwrite_below);
  }
}

void linear_bwd_kernel(const OpContext& context, const LinearBwd& op) {
  gradient_of_activation(*context.pool, op);
  const Float8Factor gradient(*context.pool, op.gradient(), Float8::E5M2, op.fp8);
  if (!op.dx.empty()) gradient_of_input(*context.pool, op, gradient.matrix());
  const Float8Factor x(*context.pool, op.x, Float8::E4M3, op.fp8);
  gemm(*context.pool, GemmArgs{.transpose_a = true,
                               .a = x.matrix(),
                               .b = gradient.matrix(),
                               .c = op.dw,
                               .beta = op.overwrite ? 0.0f : 1.0f});
}

const OpRegistration<LinearFwd> linear_fwd_cpu{DeviceType::Cpu, &linear_fwd_kernel};
const OpRegistration<LinearBwd> linear_bwd_cpu{DeviceType::Cpu, &linear_bwd_kernel};

}  // namespace
}  // namespace hugectr
