// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/losses/binary_cross_entropy.hpp"
#include "core/cpp/metrics/entry.hpp"

namespace hugectr::metrics {

/// Of the logit, so that no prediction is too sure for its logarithm.
struct LogLoss : Fields<> {
  static constexpr const char* kName = "LogLoss";
  static constexpr const char* kOp = "log_loss";
  static constexpr const char* kDoc =
      "mean of -y log(p) - (1 - y) log(1 - p) with prediction p and label y, whatever the loss";
  static constexpr std::size_t kSums = 2;
  static constexpr bool kNeedsProbability = true;

  HCTR_HD void add(float score, float label, float weight, double* sums) const {
    sums[0] += static_cast<double>(weight) * static_cast<double>(bce_value(score, label));
    sums[1] += static_cast<double>(weight);
  }
  double value(const double* sums) const { return sums[0] / sums[1]; }
};

}  // namespace hugectr::metrics
