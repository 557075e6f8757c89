// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/metrics/entry.hpp"

namespace hugectr::metrics {

struct Smape : Fields<> {
  static constexpr const char* kName = "SMAPE";
  static constexpr const char* kOp = "smape";
  static constexpr const char* kDoc =
      "mean of |prediction - y| / ((|prediction| + |y|) / 2), 0 where both are 0: symmetric mean "
      "absolute percentage error, as a share between 0 and 2";
  static constexpr std::size_t kSums = 2;
  static constexpr bool kOfPredictions = true;

  HCTR_HD void add(float prediction, float label, float weight, double* sums) const {
    const auto p = static_cast<double>(prediction), y = static_cast<double>(label);
    const double size = 0.5 * (fabs(p) + fabs(y));
    if (size != 0.0) sums[0] += static_cast<double>(weight) * fabs(p - y) / size;
    sums[1] += static_cast<double>(weight);
  }
  double value(const double* sums) const { return sums[0] / sums[1]; }
};

}  // namespace hugectr::metrics
