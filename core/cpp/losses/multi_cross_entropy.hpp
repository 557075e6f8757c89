// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>

#include "core/cpp/losses/binary_cross_entropy.hpp"

namespace hugectr {

/// Binary cross-entropy of several labels a sample; those below -0.5 are not known.
struct MultiCrossEntropy : Fields<PositiveFields> {
  static constexpr const char* kName = "MultiCrossEntropyLoss";
  static constexpr const char* kOp = "multi_cross_entropy";
  static constexpr const char* kDoc =
      "mean over a sample's labels of target_weight times the binary cross-entropy; a label below "
      "-0.5 is not known and adds nothing";
  static constexpr float kLeastLabel = std::numeric_limits<float>::lowest(), kMostLabel = 1.0f;
  static constexpr float kLeastKnown = -0.5f;
  static constexpr Prediction kPrediction = Prediction::Sigmoid;

  HCTR_HD float value(float x, float y) const {
    return y < kLeastKnown ? 0.0f : bce_value(x, y) + more_of_positives(x, y, pos_weight);
  }
  HCTR_HD float gradient(float x, float y) const {
    return y < kLeastKnown ? 0.0f
                           : bce_gradient(x, y) + more_of_positives_gradient(x, y, pos_weight);
  }
};

}  // namespace hugectr
