// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/ops/elementwise/entry.hpp"

namespace hugectr {

/// y = tanh(x),  dx = dy (1 - y^2)
struct Tanh : Fields<> {
  static constexpr const char* kName = "Tanh";
  static constexpr const char* kOp = "tanh";
  static constexpr const char* kDoc = "y = tanh(x)";

  HCTR_HD float forward(float x) const { return tanhf(x); }
  /// Factors, because 1 - y^2 loses the digits of a y close to 1.
  HCTR_HD float backward(float y, float dy) const { return dy * ((1.0f - y) * (1.0f + y)); }
};

}  // namespace hugectr
