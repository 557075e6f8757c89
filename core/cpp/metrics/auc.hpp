// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/metrics/entry.hpp"
#include "core/cpp/ops/auc.hpp"

namespace hugectr::metrics {

/// Exact, ties counted half; NaN when only one class was seen. Scores, not probabilities, rank the
/// samples: probabilities of logits above 17 are one float32.
struct Auc : Fields<> {
  static constexpr const char* kName = "AUC";
  static constexpr const char* kDoc =
      "area under the ROC curve, exact, ties counted half; NaN when a class is missing";
  static constexpr bool kOfPositives = true;

  static AnyOp value(const SampleArrays& samples, const TensorRef& value) {
    return hugectr::Auc{.scores = samples.scores,
                        .labels = samples.labels,
                        .weights = samples.weights,
                        .auc = value};
  }
};

}  // namespace hugectr::metrics
