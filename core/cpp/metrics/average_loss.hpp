// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/metrics/entry.hpp"

namespace hugectr::metrics {

struct AverageLoss : Fields<> {
  static constexpr const char* kName = "AverageLoss";
  static constexpr const char* kDoc =
      "mean over samples of what training minimises, regularizer included";
  static constexpr std::size_t kSums = 2;

  void add_batch(double loss, double samples, double* sums) const {
    sums[0] += loss * samples;
    sums[1] += samples;
  }
  double value(const double* sums) const { return sums[0] / sums[1]; }
};

}  // namespace hugectr::metrics
