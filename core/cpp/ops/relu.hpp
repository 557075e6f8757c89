// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// max(x, 0); NaN stays NaN, so that a broken run is seen.
HCTR_HD inline float relu(float x) { return x < 0.0f ? 0.0f : x; }

/// Gradient through relu, from its result. Where that is NaN the gradient goes on, as NaN did.
HCTR_HD inline float relu_gradient(float y, float dy) { return y <= 0.0f ? 0.0f : dy; }

/// y = max(x, 0).
///
/// x, y: float32, float16 or bfloat16, of one shape, rows may be strided. Overwrites y, which may
/// be x. Deterministic.
struct HCTR_API ReluFwd {
  static constexpr const char* kName = "relu_fwd";
  static constexpr std::string_view kLowered = "x y";
  TensorRef x, y;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("y", Access::Out, y);
  }
  void check() const;
};

/// dx = 0 where y <= 0, else dy: also where y is NaN.
///
/// y, dy, dx: float32, float16 or bfloat16, of one shape, rows may be strided. Overwrites dx, which
/// may be dy. Deterministic.
struct HCTR_API ReluBwd {
  static constexpr const char* kName = "relu_bwd";
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
