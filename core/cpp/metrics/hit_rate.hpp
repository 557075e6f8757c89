// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/metrics/entry.hpp"

namespace hugectr::metrics {

struct HitRate : Fields<> {
  static constexpr const char* kName = "HitRate";
  static constexpr const char* kOp = "hit_rate";
  static constexpr const char* kDoc =
      "share of positive labels among the samples predicted above 0.8; NaN when there is none";
  static constexpr std::size_t kSums = 2;
  static constexpr bool kOfPredictions = true;
  static constexpr bool kOfPositives = true;

  HCTR_HD void add(float prediction, float label, float weight, double* sums) const {
    if (!(prediction > 0.8f)) return;
    sums[0] += label > 0.5f ? static_cast<double>(weight) : 0.0;
    sums[1] += static_cast<double>(weight);
  }
  double value(const double* sums) const { return sums[0] / sums[1]; }
};

}  // namespace hugectr::metrics
