// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Area under the ROC curve, exact: the chance that a random positive scores higher than a random
/// negative, ties counted half:
///   auc = sum over distinct scores s of P(s) (N(<s) + N(s) / 2) / (P N)
/// with P(s), N(s) the weight of positives and negatives at s.
///
/// scores, labels, weights: (n) float32, contiguous, of all devices and all batches of an
/// evaluation; a label above 0.5 is positive; weight 0 leaves a sample out. auc: (1) float64,
/// overwritten: NaN when a class is missing (the area is 0 / 0 then) or a score is NaN.
/// Deterministic, and independent of the order of the samples where weights are integers.
struct HCTR_API Auc {
  static constexpr const char* kName = "auc";
  TensorRef scores, labels, weights, auc;
  void visit(OpVisitor& v) {
    v.tensor("scores", Access::In, scores);
    v.tensor("labels", Access::In, labels);
    v.tensor("weights", Access::In, weights);
    v.tensor("auc", Access::Out, auc);
  }
  void check() const;
};

}  // namespace hugectr
