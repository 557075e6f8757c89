// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/loops/matrix.hpp"

/// Matrix product, the only place that knows the BLAS and our own product.
///
///   c = alpha * op(a) op(b) + beta * c,   op(x) = x or its transpose
///
/// a: (m, k), or (k, m) when transpose_a. b: (k, n), or (n, k) when transpose_b. c: (m, n). All
/// float32, float16 or bfloat16, two-dimensional, rows may be strided. c must not overlap a or b.
/// beta 0 overwrites c, NaN included. Sums are float32; in 16 bits c is rounded once. With
/// OpContext::tf32 float32 factors are rounded to tf32 (10 bits of mantissa) where the device can.
/// Deterministic: the work is cut by shape only, never by the number of threads.
namespace hugectr {

struct HCTR_API Gemm {
  static constexpr const char* kName = "gemm";
  static constexpr std::string_view k16BitFields = "a b c";
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

/// The same product for kernels. a and b are of one dtype; c may be float32 beside 16-bit factors.
/// CPU kernels take float32 alone.
struct GemmArgs {
  bool transpose_a = false;
  bool transpose_b = false;
  Matrix a, b, c;
  float alpha = 1.0f;
  float beta = 0.0f;
  /// Where neither a is transposed nor c is scaled: OpContext::rows_alike.
  bool rows_alike = false;
  std::size_t m() const { return c.rows; }
  std::size_t n() const { return c.columns; }
  std::size_t k() const { return transpose_a ? a.rows : a.columns; }
};

/// What a CPU kernel does to c while it is in cache: called once for every piece
/// [row_begin, row_end) x [column_begin, column_end) of c as soon as it is done, on the thread that
/// made it. The pieces cover c exactly.
using GemmEpilogue = std::function<void(std::size_t row_begin, std::size_t row_end,
                                        std::size_t column_begin, std::size_t column_end)>;

/// Product over the thread pool. Pieces begin at multiples of `row_step` rows.
void gemm(ThreadPool& pool, const GemmArgs& args, const GemmEpilogue& epilogue = {},
          std::size_t row_step = 1);

/// The same product on the calling thread alone, for kernels that share out many small ones.
void gemm_in_thread(const GemmArgs& args);

}  // namespace hugectr
