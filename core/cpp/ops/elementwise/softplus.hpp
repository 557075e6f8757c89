// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/ops/elementwise/entry.hpp"

namespace hugectr {

/// y = log(1 + e^x) in the form that never overflows,  dx = dy (1 - e^-y): that is sigmoid(x).
///
/// PyTorch's Softplus of beta 1, without the straight line it changes to above its threshold: this
/// form needs none.
struct Softplus : Fields<> {
  static constexpr const char* kName = "Softplus";
  static constexpr const char* kOp = "softplus";
  static constexpr const char* kDoc = "y = log(1 + e^x)";

  HCTR_HD float forward(float x) const { return (x > 0.0f ? x : 0.0f) + log1pf(expf(-fabsf(x))); }
  HCTR_HD float backward(float y, float dy) const { return dy * -expm1f(-y); }
};

}  // namespace hugectr
