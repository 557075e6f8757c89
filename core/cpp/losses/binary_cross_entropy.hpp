// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/losses/entry.hpp"
#include "core/cpp/losses/fields.hpp"
#include "core/cpp/ops/elementwise/sigmoid.hpp"

namespace hugectr {

/// log(1 + e^-|x|), in [0, log 2].
HCTR_HD inline float log1p_exp_minus(float x) { return log1pf(expf(-fabsf(x))); }

/// Binary cross-entropy of logit x and label y in the form that never overflows:
/// max(x, 0) - x y + log(1 + e^-|x|).
HCTR_HD inline float bce_value(float x, float y) {
  return (x > 0.0f ? x : 0.0f) - x * y + log1p_exp_minus(x);
}

/// sigmoid(x) - y, without the cancellation of a sigmoid close to 1 and a label of 1.
HCTR_HD inline float bce_gradient(float x, float y) {
  return x > 0.0f ? (1.0f - y) - sigmoid(-x) : sigmoid(x) - y;
}

/// What a pos_weight w adds to the value: (w - 1) y log(1 + e^-x). Nothing when w is 1.
HCTR_HD inline float more_of_positives(float x, float y, float w) {
  return (w - 1.0f) * y * ((x < 0.0f ? -x : 0.0f) + log1p_exp_minus(x));
}
HCTR_HD inline float more_of_positives_gradient(float x, float y, float w) {
  return (1.0f - w) * y * sigmoid(-x);
}

/// -w y log(p) - (1 - y) log(1 - p) with p = sigmoid(x) and w = pos_weight
struct BinaryCrossEntropy : Fields<PositiveFields> {
  static constexpr const char* kName = "BinaryCrossEntropyLoss";
  static constexpr const char* kOp = "bce";
  static constexpr const char* kDoc =
      "-pos_weight y log(p) - (1 - y) log(1 - p), p = sigmoid(logit)";
  static constexpr float kLeastLabel = 0.0f, kMostLabel = 1.0f;
  static constexpr Prediction kPrediction = Prediction::Sigmoid;

  HCTR_HD float value(float x, float y) const {
    return bce_value(x, y) + more_of_positives(x, y, pos_weight);
  }
  HCTR_HD float gradient(float x, float y) const {
    return bce_gradient(x, y) + more_of_positives_gradient(x, y, pos_weight);
  }
};

}  // namespace hugectr
