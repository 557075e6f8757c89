// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Second-order interactions of a factorisation machine. x is seen as k vectors v_i of size d.
///
///   y[b, j] = sum_{m < i} v_m[b, j] v_i[b, j]
///
/// which is 0.5 ((sum_i v_i)^2 - sum_i v_i^2) without the cancellation: each vector is multiplied
/// with the sum of those before it, and one vector gives exactly 0.
///
/// x: (b, k * d) or (b, k, d). y: (b, d). Both float32, float16 or bfloat16. Overwrites y; y does
/// not overlap x. Deterministic.
struct HCTR_API FmOrder2Fwd {
  static constexpr const char* kName = "fm_order2_fwd";
  static constexpr std::string_view k16BitFields = "x y";
  TensorRef x, y;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("y", Access::Out, y);
  }
  void check() const;
};

/// dv_i[b, j] = dy[b, j] * (sum_m v_m[b, j] - v_i[b, j]); the sum is taken anew.
///
/// x, dx: as x of the forward; dy: (b, d); all of one dtype. Overwrites dx; dx overlaps nothing.
/// Deterministic.
struct HCTR_API FmOrder2Bwd {
  static constexpr const char* kName = "fm_order2_bwd";
  static constexpr std::string_view k16BitFields = "x dy dx";
  TensorRef x, dy, dx;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("dy", Access::In, dy);
    v.tensor("dx", Access::Out, dx);
  }
  void check() const;
};

}  // namespace hugectr
