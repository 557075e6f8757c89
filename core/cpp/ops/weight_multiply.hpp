// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Gives every input column a vector of its own, scaled by the column's value.
///
///   y[b, s * d + j] = x[b, s] * w[s, j]
///
/// x: (b, S) and y: (b, S * d), both float32, float16 or bfloat16. w: float32 (S, d), contiguous.
/// Overwrites y; y overlaps nothing. Deterministic.
struct HCTR_API WeightMultiplyFwd {
  static constexpr const char* kName = "weight_multiply_fwd";
  static constexpr std::string_view k16BitFields = "x y";
  TensorRef x, w, y;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("w", Access::In, w);
    v.tensor("y", Access::Out, y);
  }
  void check() const;
};

/// dx[b, s] = sum_j dy[b, s * d + j] * w[s, j];   dw[s, j] += sum_b dy[b, s * d + j] * x[b, s].
///
/// Shapes as in the forward; x, dy and dx are of one dtype, dw is float32. partial: scratch,
/// float32 (partial_rows(b), S * d), contiguous (partial_sums.hpp). dx may be empty. Overwrites dx,
/// accumulates into dw. The sum over the batch is cut by the batch size only and put together in
/// order: deterministic.
struct HCTR_API WeightMultiplyBwd {
  static constexpr const char* kName = "weight_multiply_bwd";
  static constexpr std::string_view k16BitFields = "x dy dx";
  TensorRef x, w, dy, dx, dw, partial;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("w", Access::In, w);
    v.tensor("dy", Access::In, dy);
    v.optional("dx", Access::Out, dx);
    v.tensor("dw", Access::InOut, dw);
    v.tensor("partial", Access::Out, partial);
  }
  void check() const;
};

}  // namespace hugectr
