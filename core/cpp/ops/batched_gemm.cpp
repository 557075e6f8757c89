// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/batched_gemm.hpp"

#include <algorithm>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/gemm.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/matrix_batch.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void BatchedGemm::check() const {
  Shape batch;
  for (const TensorRef* t : {&a, &b, &c}) {
    check_real(kName, "a matrix", *t, a.dtype, t->shape);
    HCTR_CHECK(t->shape.size() >= 2, kName, ": shape ", to_string(t->shape),
               " must have two dimensions or more");
    const Shape before(t->shape.begin(), t->shape.end() - 2);
    if (before.empty()) continue;
    if (batch.empty()) batch = before;
    HCTR_CHECK(before == batch, kName, ": a ", to_string(a.shape), ", b ", to_string(b.shape),
               " and c ", to_string(c.shape), " must agree in the dimensions before the last two");
  }
  HCTR_CHECK(c.shape.size() == 2 || a.shape.size() > 2 || b.shape.size() > 2, kName,
             ": c has more dimensions than both factors");
  const MatrixBatch as(a), bs(b), cs(c);
  const std::size_t m = transpose_a ? as.columns : as.rows, k = transpose_a ? as.rows : as.columns;
  const std::size_t n = transpose_b ? bs.rows : bs.columns;
  HCTR_CHECK((transpose_b ? bs.columns : bs.rows) == k && cs.rows == m && cs.columns == n, kName,
             ": a ", to_string(a.shape), transpose_a ? "^T" : "", " times b ", to_string(b.shape),
             transpose_b ? "^T" : "", " does not give c ", to_string(c.shape));
}

namespace {

void batched_gemm_kernel(const OpContext& ctx, const BatchedGemm& op) {
  const MatrixBatch a(op.a), b(op.b), c(op.c);
  const auto product = [&](std::size_t i, float beta) {
    return GemmArgs{.transpose_a = op.transpose_a,
                    .transpose_b = op.transpose_b,
                    .a = a.at(i),
                    .b = b.at(i),
                    .c = c.at(i),
                    .beta = beta};
  };
  if (c.count == 1) {
    const std::size_t count = std::max(a.count, b.count);
    for (std::size_t i = 0; i < count; ++i) gemm(*ctx.pool, product(i, i == 0 ? 0.0f : 1.0f));
    return;
  }
  parallel_for(*ctx.pool, c.count, row_grain(c.rows * c.columns),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t i = begin; i < end; ++i) gemm_in_thread(product(i, 0.0f));
               });
}

const OpRegistration<BatchedGemm> batched_gemm_cpu{DeviceType::Cpu, &batched_gemm_kernel};

}  // namespace
}  // namespace hugectr
