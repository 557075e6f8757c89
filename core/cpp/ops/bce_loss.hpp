// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/elementwise/sigmoid.hpp"

namespace hugectr {

/// Binary cross-entropy of logit x and label y in the form that never overflows:
/// max(x, 0) - x y + log(1 + e^-|x|).
HCTR_HD inline float bce_value(float x, float y) {
  return (x > 0.0f ? x : 0.0f) - x * y + log1pf(expf(-fabsf(x)));
}

/// sigmoid(x) - y, without the cancellation of a sigmoid close to 1 and a label of 1.
HCTR_HD inline float bce_gradient(float x, float y) {
  return x > 0.0f ? (1.0f - y) - sigmoid(-x) : sigmoid(x) - y;
}

/// Binary cross-entropy over the real samples of the global batch, this device's share:
///   loss = inv_weight_sum * sum_i weight_i bce(x_i, y_i)
///   dlogits_i = grad_scale * loss_scale * inv_weight_sum * weight_i (sigmoid(x_i) - y_i)
///   prediction_i = sigmoid(x_i)
///
/// logits, dlogits: (batch, 1) float32, float16 or bfloat16; labels, prediction: (batch, 1)
/// float32; the rows of these may be strided. weight: (batch), 0 for padding, whose logits are not
/// looked at; inv_weight_sum, loss: (1); loss_scale: (1) float32, 1 when absent: what mixed
/// precision multiplies gradients by and the optimizers divide out again; partial:
/// (partial_rows(batch)) float64 scratch. dlogits and prediction may be absent. Overwrites its
/// outputs; one of dlogits and prediction may be logits, when it has their dtype. Deterministic.
struct HCTR_API BceLoss {
  static constexpr const char* kName = "bce_loss";
  static constexpr std::string_view kLowered = "logits dlogits";
  TensorRef logits, labels, weight, inv_weight_sum, loss_scale, loss, dlogits, prediction, partial;
  double grad_scale = 1.0;
  void visit(OpVisitor& v) {
    v.tensor("logits", Access::In, logits);
    v.tensor("labels", Access::In, labels);
    v.tensor("weight", Access::In, weight);
    v.tensor("inv_weight_sum", Access::In, inv_weight_sum);
    v.optional("loss_scale", Access::In, loss_scale);
    v.tensor("loss", Access::Out, loss);
    v.optional("dlogits", Access::Out, dlogits);
    v.optional("prediction", Access::Out, prediction);
    v.tensor("partial", Access::Out, partial);
    v.attribute("grad_scale", grad_scale);
  }
  void check() const;
};

}  // namespace hugectr
