// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Normalised discounted cumulative gain of one list, exact:
///   ndcg = sum_i g_i d_i / sum_i g*_i d_i,  d_i = 1 / log2(i + 2)
/// with gains g = weight * label by descending score and g* the same by descending gain, places i
/// from 0. Samples of equal score each take the mean discount of their places, so that their order
/// does not matter.
///
/// scores, labels, weights: (n) float32, contiguous; weight 0 leaves a sample out of the list.
/// ndcg: (1) float64, overwritten: NaN without a gain (0 / 0) or when a score is NaN.
/// Deterministic.
struct HCTR_API Ndcg {
  static constexpr const char* kName = "ndcg";
  TensorRef scores, labels, weights, ndcg;
  void visit(OpVisitor& v) {
    v.tensor("scores", Access::In, scores);
    v.tensor("labels", Access::In, labels);
    v.tensor("weights", Access::In, weights);
    v.tensor("ndcg", Access::Out, ndcg);
  }
  void check() const;
};

}  // namespace hugectr
