// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/metrics/entry.hpp"
#include "core/cpp/ops/elementwise/sigmoid.hpp"

namespace hugectr::metrics {

struct Calibration : Fields<> {
  static constexpr const char* kName = "Calibration";
  static constexpr const char* kOp = "calibration";
  static constexpr const char* kDoc =
      "mean prediction / mean label: above 1 where the model promises too much; infinite when no "
      "label is positive";
  static constexpr std::size_t kSums = 2;
  static constexpr bool kNeedsProbability = true;

  HCTR_HD void add(float score, float label, float weight, double* sums) const {
    sums[0] += static_cast<double>(weight) * static_cast<double>(sigmoid(score));
    sums[1] += static_cast<double>(weight) * static_cast<double>(label);
  }
  double value(const double* sums) const { return sums[0] / sums[1]; }
};

}  // namespace hugectr::metrics
