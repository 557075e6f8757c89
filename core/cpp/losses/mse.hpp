// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>

#include "core/cpp/losses/entry.hpp"

namespace hugectr {

/// (x - y)^2
struct Mse : Fields<> {
  static constexpr const char* kName = "MSELoss";
  static constexpr const char* kOp = "mse";
  static constexpr const char* kDoc = "(prediction - y)^2; the prediction is the value itself";
  static constexpr float kLeastLabel = std::numeric_limits<float>::lowest();
  static constexpr float kMostLabel = std::numeric_limits<float>::max();
  static constexpr Prediction kPrediction = Prediction::Identity;

  HCTR_HD float value(float x, float y) const { return (x - y) * (x - y); }
  HCTR_HD float gradient(float x, float y) const { return 2.0f * (x - y); }
};

}  // namespace hugectr
