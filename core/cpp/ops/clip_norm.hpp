// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

/// Clipping by the norm of all gradients of a step: the squares of their parts, then one factor
/// that every update of the step multiplies by (Pascanu et al., "On the difficulty of training
/// recurrent neural networks", ICML 2013).
namespace hugectr {

/// sum = sum_i x_i^2
///
/// x: flat (n) float32, contiguous; sum: (1) float64. Added up in double, in an order that depends
/// on n only. Overwrites. Deterministic.
struct HCTR_API SquareSum {
  static constexpr const char* kName = "square_sum";
  TensorRef x, sum;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("sum", Access::Out, sum);
  }
  void check() const;
};

/// sum += sum over the rows of a batch (runs: lookup_sort.hpp) of |g|^2, g being the gradient of
/// the row: the sum over its run of scale[bucket] * gradient[bucket], as embedding_update has it.
///
/// sorted_buckets, run_offsets uint32, run_count (1) int64; gradient (B, S, d) float32, float16 or
/// bfloat16, any row_stride, d <= 1024; scale (B*S) float32 or empty (1); sum (1) float64.
/// Accumulates. Deterministic.
struct HCTR_API RowSquareSum {
  static constexpr const char* kName = "row_square_sum";
  static constexpr std::string_view k16BitFields = "gradient";
  TensorRef sorted_buckets, run_offsets, run_count, gradient, scale, sum;
  void visit(OpVisitor& v) {
    v.tensor("sorted_buckets", Access::In, sorted_buckets);
    v.tensor("run_offsets", Access::In, run_offsets);
    v.tensor("run_count", Access::In, run_count);
    v.tensor("gradient", Access::In, gradient);
    v.optional("scale", Access::In, scale);
    v.tensor("sum", Access::InOut, sum);
  }
  void check() const;
};

/// What gradients are multiplied by: unscale *= min(1, clip_norm / (norm + 1e-6)), where norm is
/// unscale sqrt(sum of squares). An unscale of 0, a skipped step, stays; of a norm that is not
/// finite it becomes NaN, so that no update hides it.
///
/// squares: (n) float64, of the gradients before they are unscaled; unscale: (1) float32, in place
/// with `scaled` (1 / loss scale), else overwritten as if it had been 1. clip_norm > 0.
/// Deterministic.
struct HCTR_API ClipNorm {
  static constexpr const char* kName = "clip_norm";
  TensorRef squares, unscale;
  double clip_norm = 1.0;
  bool scaled = false;
  void visit(OpVisitor& v) {
    v.tensor("squares", Access::In, squares);
    v.tensor("unscale", Access::InOut, unscale);
    v.attribute("clip_norm", clip_norm);
    v.attribute("scaled", scaled);
  }
  void check() const;
};

/// The rule above, on one thread.
HCTR_HD inline float clipped_unscale(const double* squares, std::size_t n, double clip_norm,
                                     float unscale) {
  if (unscale == 0.0f) return unscale;
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += squares[i];
  const double norm = static_cast<double>(unscale) * sqrt(sum);
  if (!(norm - norm == 0.0)) return static_cast<float>(norm - norm);  // inf - inf: NaN
  const double factor = clip_norm / (norm + 1e-6);
  return factor < 1.0 ? static_cast<float>(static_cast<double>(unscale) * factor) : unscale;
}

}  // namespace hugectr
