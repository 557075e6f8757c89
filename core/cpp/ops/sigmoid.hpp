// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// 1 / (1 + e^-x); expf of a value <= 0 only, so that nothing overflows.
HCTR_HD inline float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/// y = 1 / (1 + e^-x).
///
/// x, y: float32, float16 or bfloat16, of one shape, rows may be strided. Overwrites y, which may
/// be x. Deterministic.
struct HCTR_API SigmoidFwd {
  static constexpr const char* kName = "sigmoid_fwd";
  static constexpr std::string_view kLowered = "x y";
  TensorRef x, y;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("y", Access::Out, y);
  }
  void check() const;
};

/// dx = dy y (1 - y).
///
/// y, dy, dx: float32, float16 or bfloat16, of one shape, rows may be strided. Overwrites dx, which
/// may be dy. Deterministic.
struct HCTR_API SigmoidBwd {
  static constexpr const char* kName = "sigmoid_bwd";
  static constexpr std::string_view kLowered = "y dy dx";
  TensorRef y, dy, dx;
  void visit(OpVisitor& v) {
    v.tensor("y", Access::In, y);
    v.tensor("dy", Access::In, dy);
    v.tensor("dx", Access::Out, dx);
  }
  void check() const;
};

}  // namespace hugectr
