// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/losses/entry.hpp"
#include "core/cpp/ops/elementwise/sigmoid.hpp"

namespace hugectr {

/// Binary cross-entropy of logit x and label y in the form that never overflows:
/// max(x, 0) - x y + log(1 + e^-|x|).
HCTR_HD inline float bce_value(float x, float y) {
  return (x > 0.0f ? x : 0.0f) - x * y + log1pf(expf(-fabsf(x)));
}

/// sigmoid(x) - y, without the cancellation of a sigmoid close to 1 and a label of 1.
HCTR_HD inline float bce_gradient(float x, float y) {
  return x > 0.0f ? (1.0f - y) - sigmoid(-x) : sigmoid(x) - y;
}

/// -y log(p) - (1 - y) log(1 - p) with p = sigmoid(x)
struct BinaryCrossEntropy : Fields<> {
  static constexpr const char* kName = "BinaryCrossEntropyLoss";
  static constexpr const char* kOp = "bce";
  static constexpr const char* kDoc = "-y log(p) - (1 - y) log(1 - p), p = sigmoid(logit)";
  static constexpr float kLeastLabel = 0.0f, kMostLabel = 1.0f;

  HCTR_HD float value(float x, float y) const { return bce_value(x, y); }
  HCTR_HD float gradient(float x, float y) const { return bce_gradient(x, y); }
};

}  // namespace hugectr
