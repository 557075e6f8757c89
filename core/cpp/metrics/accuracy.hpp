// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/metrics/entry.hpp"

namespace hugectr::metrics {

struct Accuracy : Fields<> {
  static constexpr const char* kName = "Accuracy";
  static constexpr const char* kOp = "accuracy";
  static constexpr const char* kDoc =
      "share of samples whose likeliest class is that of the label; of a probability the class is "
      "1 above 0.5";
  static constexpr std::size_t kSums = 2;
  static constexpr bool kTakesClasses = true;

  HCTR_HD void add(float chosen, float label, float weight, double* sums) const {
    if (chosen == label) sums[0] += static_cast<double>(weight);
    sums[1] += static_cast<double>(weight);
  }
  double value(const double* sums) const { return sums[0] / sums[1]; }
};

}  // namespace hugectr::metrics
