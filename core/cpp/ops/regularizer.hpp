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

/// loss += share * lambda * inv_batch * sum_i (|w_i| for L1, w_i^2 / 2 for L2).
///
/// w: flat (n) float32, contiguous; inv_batch, loss: (1) float32; partial: (partial_rows(n))
/// float64 scratch. inv_batch is 1 / samples of the GLOBAL batch. share is 1 / devices where
/// every device adds its part. Accumulates into loss. Deterministic.
struct HCTR_API RegularizerLoss {
  static constexpr const char* kName = "regularizer_loss";
  TensorRef w, inv_batch, loss, partial;
  RegularizerKind kind = RegularizerKind::L2;
  double lambda = 0.0;
  double share = 1.0;
  void visit(OpVisitor& v) {
    v.tensor("w", Access::In, w);
    v.tensor("inv_batch", Access::In, inv_batch);
    v.tensor("loss", Access::InOut, loss);
    v.tensor("partial", Access::Out, partial);
    v.attribute("kind", kind);
    v.attribute("lambda", lambda);
    v.attribute("share", share);
  }
  void check() const;
};

/// dw_i += loss_scale * share * lambda * inv_batch * (sign(w_i) for L1, w_i for L2).
///
/// w, dw: flat (n) float32, contiguous; inv_batch: (1) float32; loss_scale: (1) float32, 1 when
/// absent. share as above. Accumulates into dw. Deterministic.
struct HCTR_API RegularizerGrad {
  static constexpr const char* kName = "regularizer_grad";
  TensorRef w, inv_batch, loss_scale, dw;
  RegularizerKind kind = RegularizerKind::L2;
  double lambda = 0.0;
  double share = 1.0;
  void visit(OpVisitor& v) {
    v.tensor("w", Access::In, w);
    v.tensor("inv_batch", Access::In, inv_batch);
    v.optional("loss_scale", Access::In, loss_scale);
    v.tensor("dw", Access::InOut, dw);
    v.attribute("kind", kind);
    v.attribute("lambda", lambda);
    v.attribute("share", share);
  }
  void check() const;
};

}  // namespace hugectr
