// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

enum class RegularizerKind { L1, L2 };

/// Derivative of |w| (L1, 0 at 0) or w^2 / 2 (L2); NaN at NaN.
HCTR_HD inline float regularizer_slope(RegularizerKind kind, float w) {
  return kind == RegularizerKind::L2 ? w : (w > 0.0f ? 1.0f : (w < 0.0f ? -1.0f : w));
}

/// loss += share * lambda * sum_i (|w_i| for L1, w_i^2 / 2 for L2).
///
/// w: flat (n) float32, contiguous; loss: (1) float32; partial: (partial_rows(n)) float64 scratch.
/// share: 1 / samples of a whole batch of all devices, and 1 / devices of that where every device
/// adds its part. Accumulates into loss. Deterministic.
struct HCTR_API RegularizerLoss {
  static constexpr const char* kName = "regularizer_loss";
  TensorRef w, loss, partial;
  RegularizerKind kind = RegularizerKind::L2;
  double lambda = 0.0;
  double share = 1.0;
  void visit(OpVisitor& v) {
    v.tensor("w", Access::In, w);
    v.tensor("loss", Access::InOut, loss);
    v.tensor("partial", Access::Out, partial);
    v.attribute("kind", kind);
    v.attribute("lambda", lambda);
    v.attribute("share", share);
  }
  void check() const;
};

/// dw_i += loss_scale * share * lambda * (sign(w_i) for L1, w_i for L2).
///
/// w, dw: flat (n) float32, contiguous; loss_scale: (1) float32, 1 when absent. share as above.
/// Accumulates into dw. Deterministic.
struct HCTR_API RegularizerGrad {
  static constexpr const char* kName = "regularizer_grad";
  TensorRef w, loss_scale, dw;
  RegularizerKind kind = RegularizerKind::L2;
  double lambda = 0.0;
  double share = 1.0;
  void visit(OpVisitor& v) {
    v.tensor("w", Access::In, w);
    v.optional("loss_scale", Access::In, loss_scale);
    v.tensor("dw", Access::InOut, dw);
    v.attribute("kind", kind);
    v.attribute("lambda", lambda);
    v.attribute("share", share);
  }
  void check() const;
};

}  // namespace hugectr
