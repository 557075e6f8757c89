// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/metrics/entry.hpp"

namespace hugectr::metrics {

struct Mse : Fields<> {
  static constexpr const char* kName = "MSE";
  static constexpr const char* kOp = "mse";
  static constexpr const char* kDoc = "mean of (prediction - y)^2";
  static constexpr std::size_t kSums = 2;
  static constexpr bool kOfPredictions = true;

  HCTR_HD void add(float prediction, float label, float weight, double* sums) const {
    const double error = static_cast<double>(prediction) - static_cast<double>(label);
    sums[0] += static_cast<double>(weight) * error * error;
    sums[1] += static_cast<double>(weight);
  }
  double value(const double* sums) const { return sums[0] / sums[1]; }
};

}  // namespace hugectr::metrics
