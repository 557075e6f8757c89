// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

/// Matrix product, the only place that knows the BLAS.
///
///   c = alpha * op(a) op(b) + beta * c,   op(x) = x or its transpose
///
/// a: (m, k), or (k, m) when transpose_a. b: (k, n), or (n, k) when transpose_b. c: (m, n). All
/// float32, two-dimensional, rows may be strided. c must not overlap a or b. beta 0 overwrites c,
/// NaN included. Deterministic: the work is cut by shape only, never by the number of threads.
namespace hugectr {

struct HCTR_API Gemm {
  static constexpr const char* kName = "gemm";
  TensorRef a, b, c;
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1.0;
  double beta = 0.0;
  void visit(OpVisitor& v) {
    v.tensor("a", Access::In, a);
    v.tensor("b", Access::In, b);
    v.tensor("c", Access::InOut, c);
    v.attribute("transpose_a", transpose_a);
    v.attribute("transpose_b", transpose_b);
    v.attribute("alpha", alpha);
    v.attribute("beta", beta);
  }
  void check() const;
};

/// The same product on plain memory, for CPU kernels: strides are elements between stored rows.
struct GemmArgs {
  bool transpose_a = false;
  bool transpose_b = false;
  std::size_t m = 0, n = 0, k = 0;
  float alpha = 1.0f;
  const float* a = nullptr;
  std::size_t a_stride = 0;
  const float* b = nullptr;
  std::size_t b_stride = 0;
  float beta = 0.0f;
  float* c = nullptr;
  std::size_t c_stride = 0;
};

/// Called once for every piece [row_begin, row_end) x [column_begin, column_end) of c as soon as it
/// is done, while it is in cache, on the thread that made it. The pieces cover c exactly.
using GemmEpilogue = std::function<void(std::size_t row_begin, std::size_t row_end,
                                        std::size_t column_begin, std::size_t column_end)>;

/// Product over the thread pool.
void gemm(ThreadPool& pool, const GemmArgs& args, const GemmEpilogue& epilogue = {});

/// Product on the calling thread alone, for kernels that are parallel over many small products.
void gemm_serial(const GemmArgs& args);

}  // namespace hugectr
