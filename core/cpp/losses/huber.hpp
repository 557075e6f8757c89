// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <limits>

#include "core/cpp/losses/entry.hpp"

namespace hugectr {

/// The distance from which on Huber's loss grows as it, no longer as its square.
struct HuberFields {
  float delta = 1.0f;
  template <class Self, class F>
  static void visit(Self& self, const F& f) {
    f(Field{"delta", std::numeric_limits<float>::min(), kUnbounded,
            "the distance from which on the loss grows linearly"},
      self.delta);
  }
};

/// With e = |x - y|: e^2 / 2 up to delta, beyond it delta (e - delta / 2). Huber, "Robust
/// Estimation of a Location Parameter", 1964.
struct Huber : Fields<HuberFields> {
  static constexpr const char* kName = "HuberLoss";
  static constexpr const char* kOp = "huber";
  static constexpr const char* kDoc =
      "e^2 / 2 where e = |prediction - y| <= delta, else delta (e - delta / 2); the prediction is "
      "the value itself";
  static constexpr float kLeastLabel = std::numeric_limits<float>::lowest();
  static constexpr float kMostLabel = std::numeric_limits<float>::max();
  static constexpr Prediction kPrediction = Prediction::Identity;

  HCTR_HD float value(float x, float y) const {
    const float e = fabsf(x - y);
    return e <= delta ? 0.5f * e * e : delta * (e - 0.5f * delta);
  }
  HCTR_HD float gradient(float x, float y) const {
    const float e = x - y;
    return e > delta ? delta : (e < -delta ? -delta : e);
  }
};

}  // namespace hugectr
