// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/losses/entry.hpp"

namespace hugectr {

/// -log of the softmax at the label's class. The class of label y is the whole number nearest to
/// it: with two classes 0 below 0.5.
struct CrossEntropy : Fields<> {
  static constexpr const char* kName = "CrossEntropyLoss";
  static constexpr const char* kOp = "cross_entropy";
  static constexpr const char* kDoc =
      "-log(p_c), p = softmax(k logits), c the class, 0 to k - 1, that the one label holds";
  static constexpr float kLeastLabel = 0.0f, kMostLabel = 1.0f;  ///< of two classes
  static constexpr Prediction kPrediction = Prediction::Softmax;
};

}  // namespace hugectr
