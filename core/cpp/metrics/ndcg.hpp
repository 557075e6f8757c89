// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/metrics/entry.hpp"
#include "core/cpp/ops/ndcg.hpp"

namespace hugectr::metrics {

struct Ndcg : Fields<> {
  static constexpr const char* kName = "NDCG";
  static constexpr const char* kDoc =
      "normalised discounted cumulative gain of all samples as one list: sum of y_i / log2(i + 2), "
      "i its place by score from 0, by that of the best order; equal scores share their places";

  static AnyOp value(const SampleArrays& samples, const TensorRef& value) {
    return hugectr::Ndcg{.scores = samples.scores,
                         .labels = samples.labels,
                         .weights = samples.weights,
                         .ndcg = value};
  }
};

}  // namespace hugectr::metrics
