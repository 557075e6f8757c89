// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/fields.hpp"
#include "core/cpp/device/entry_op.hpp"

/// What a loss of the catalogue says of itself. An entry is a small struct that derives from its
/// Fields<...> and has
///
///   static constexpr const char* kName;        // layer type: "BinaryCrossEntropyLoss"
///   static constexpr const char* kOp;          // stem of its op: "bce" makes bce_loss
///   static constexpr const char* kDoc;         // formula
///   static constexpr float kLeastLabel, kMostLabel;  // what readers hold the labels to
///   HCTR_HD float value(float x, float label) const;
///   HCTR_HD float gradient(float x, float label) const;  // of value, by x
///
/// x is one logit a sample: the log-odds that the label is 1, as evaluation takes it to be; the
/// prediction is sigmoid(x). Losses of several logits need an op of another shape.
namespace hugectr {

/// Checks that do not depend on the entry; see PointwiseLoss.
struct LossTensors {
  TensorRef logits, labels, weight, inv_weight_sum, loss_scale, loss, dlogits, prediction, partial;
};
HCTR_API void check_loss(const char* op, const LossTensors& tensors);

/// A loss over the real samples of the global batch, this device's share:
///   loss = inv_weight_sum * sum_i weight_i value(x_i, y_i)
///   dlogits_i = grad_scale * loss_scale * inv_weight_sum * weight_i gradient(x_i, y_i)
///   prediction_i = sigmoid(x_i)
///
/// logits, dlogits: (batch, 1) float32, float16 or bfloat16; labels, prediction: (batch, 1)
/// float32; the rows of these may be strided. weight: (batch), 0 for padding, whose logits are not
/// looked at; inv_weight_sum, loss: (1); loss_scale: (1) float32, 1 when absent: what mixed
/// precision multiplies gradients by and the optimizers divide out again; partial:
/// (partial_rows(batch)) float64 scratch. dlogits and prediction may be absent. Overwrites its
/// outputs; one of dlogits and prediction may be logits, when it has their dtype. Deterministic.
template <class Entry>
struct HCTR_API PointwiseLoss : LossTensors {
  static constexpr auto kNameText = entry_op_name<Entry>("_loss");
  static constexpr const char* kName = kNameText.data();
  static constexpr std::string_view k16BitFields = "logits dlogits";
  double grad_scale = 1.0;
  Entry entry;
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
    visit_fields(v, entry);
  }
  void check() const {
    check_loss(kName, *this);
    check_fields(kName, entry);
  }
};

}  // namespace hugectr
