// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Area under the ROC curve within groups, weighted by their size, exact:
///   gauc = sum_g w_g auc_g / sum_g w_g,  w_g the weight of the samples of group g
/// over the groups in which both classes are; auc_g as of Auc.
///
/// scores, labels, weights, groups: (n) float32, contiguous; a group is the samples of one value
/// (-0 and 0 are one); a label above 0.5 is positive; weight 0 leaves a sample out. gauc: (1)
/// float64, overwritten: NaN when no group has both classes, or a score is NaN. Deterministic.
struct HCTR_API Gauc {
  static constexpr const char* kName = "gauc";
  TensorRef scores, labels, weights, groups, gauc;
  void visit(OpVisitor& v) {
    v.tensor("scores", Access::In, scores);
    v.tensor("labels", Access::In, labels);
    v.tensor("weights", Access::In, weights);
    v.tensor("groups", Access::In, groups);
    v.tensor("gauc", Access::Out, gauc);
  }
  void check() const;
};

}  // namespace hugectr
