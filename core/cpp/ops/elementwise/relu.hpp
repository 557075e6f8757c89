// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/ops/elementwise/entry.hpp"

namespace hugectr {

/// max(x, 0); NaN stays NaN, so that a broken run is seen.
HCTR_HD inline float relu(float x) { return x < 0.0f ? 0.0f : x; }

/// Gradient through relu, from its result. Where that is NaN the gradient goes on, as NaN did.
HCTR_HD inline float relu_gradient(float y, float dy) { return y <= 0.0f ? 0.0f : dy; }

/// y = max(x, 0)
struct Relu : Fields<> {
  static constexpr const char* kName = "ReLU";
  static constexpr const char* kOp = "relu";
  static constexpr const char* kDoc = "y = max(x, 0)";

  HCTR_HD float forward(float x) const { return relu(x); }
  HCTR_HD float backward(float y, float dy) const { return relu_gradient(y, dy); }
};

using ReluFwd = ActivationFwd<Relu>;
using ReluBwd = ActivationBwd<Relu>;

}  // namespace hugectr
