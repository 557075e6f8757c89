// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <concepts>
#include <string_view>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/fields.hpp"
#include "core/cpp/device/entry_op.hpp"
#include "core/cpp/losses/prediction.hpp"
#include "core/cpp/ops/elementwise/sigmoid.hpp"

/// What a loss of the catalogue says of itself. An entry is a small struct that derives from its
/// Fields<...> and has
///
///   static constexpr const char* kName;        // layer type: "BinaryCrossEntropyLoss"
///   static constexpr const char* kOp;          // stem of its op: "bce" makes bce_loss
///   static constexpr const char* kDoc;         // formula
///   static constexpr float kLeastLabel, kMostLabel;  // what readers hold the labels to
///   static constexpr Prediction kPrediction;   // what predictions and metrics make of the logits
///
/// With Prediction::Softmax that is all: the k logits of a sample are of k classes, and its one
/// label is the number of one. Else logits and labels go in pairs, and the entry has
///
///   HCTR_HD float value(float x, float label) const;
///   HCTR_HD float gradient(float x, float label) const;  // of value, by x
///
/// With Prediction::Sigmoid x is the log-odds that the label is 1. An entry that has
///   static constexpr float kLeastKnown;
/// takes any number of pairs a sample, each with a weight, and leaves labels below it out.
namespace hugectr {

template <class Entry>
concept OfClasses = Entry::kPrediction == Prediction::Softmax;

/// Several pairs of logit and label a sample.
template <class Entry>
concept OfPairs = requires {
  { Entry::kLeastKnown } -> std::convertible_to<float>;
};

/// Most pairs a sample: their weights are arguments of a kernel.
inline constexpr std::size_t kMostLabels = 256;

/// The largest of a sample's logits, where it is, and the sum of e^(x - largest) of the others: of
/// all it is 1 + rest, of which a small rest would be lost.
struct SoftmaxTerms {
  float largest, rest;
  std::size_t place;
  HCTR_HD float probability(float x) const { return expf(x - largest) / (1.0f + rest); }
};

template <class Logit>
HCTR_HD SoftmaxTerms softmax_terms(std::size_t n, const Logit& logit) {
  SoftmaxTerms terms{logit(0), 0.0f, 0};
  for (std::size_t j = 1; j < n; ++j) {
    if (logit(j) > terms.largest) terms = {logit(j), 0.0f, j};
  }
  for (std::size_t j = 0; j < n; ++j) {
    if (j != terms.place) terms.rest += expf(logit(j) - terms.largest);
  }
  return terms;
}

/// The class that a label holds, of n: the nearest number. A label that is none has some class.
HCTR_HD inline std::size_t class_of(float label, std::size_t n) {
  const float nearest = label + 0.5f;
  if (!(nearest >= 1.0f)) return 0;
  const float most = static_cast<float>(n - 1);
  return nearest < most ? static_cast<std::size_t>(nearest) : n - 1;
}

/// The loss of a sample with n logits; calls out(j, gradient by logit j, prediction j). Logit j is
/// not read again after out(j): it may be written there.
///   logit(j), label(j), pair_weight(j): functions
template <class Entry, class Logit, class Label, class PairWeight, class Out>
HCTR_HD float loss_of_sample(const Entry& entry, std::size_t n, const Logit& logit,
                             const Label& label, [[maybe_unused]] const PairWeight& pair_weight,
                             const Out& out) {
  if constexpr (OfClasses<Entry>) {
    const std::size_t label_class = class_of(label(0), n);
    const SoftmaxTerms terms = softmax_terms(n, logit);
    const float value = log1pf(terms.rest) + (terms.largest - logit(label_class));
    // p - 1 of the class, without the cancellation of a p close to 1.
    const float own = label_class == terms.place ? -terms.rest / (1.0f + terms.rest)
                                                 : terms.probability(logit(label_class)) - 1.0f;
    for (std::size_t j = 0; j < n; ++j) {
      const float p = terms.probability(logit(j));
      out(j, j == label_class ? own : p, p);
    }
    return value;
  } else {
    float value = 0.0f;
    for (std::size_t j = 0; j < n; ++j) {
      const float x = logit(j), y = label(j), share = pair_weight(j);
      value += share * entry.value(x, y);
      const float p = Entry::kPrediction == Prediction::Sigmoid ? sigmoid(x) : x;
      out(j, share * entry.gradient(x, y), p);
    }
    return value;
  }
}

/// Checks that do not depend on the entry; see CatalogueLoss.
struct LossTensors {
  TensorRef logits, labels, weight, inv_weight_sum, loss_scale, loss, dlogits, prediction, score,
      partial;
};
/// `classes`: one label for any number of logits, else as many; `pairs`: of those any number.
HCTR_API void check_loss(const char* op, const LossTensors& tensors, bool classes, bool pairs,
                         const std::vector<double>& target_weights);

/// A loss over the real samples of the global batch, this device's share. A sample's value l_i is
/// that of its logit and label; of n pairs sum_j target_weight_j value(x_ij, y_ij) / n; or
/// -log(softmax(x_i)) at its class.
///   loss = inv_weight_sum * sum_i weight_i l_i
///   dlogits_ij = grad_scale * loss_scale * inv_weight_sum * weight_i dl_i / dx_ij
///   prediction_ij = sigmoid(x_ij), x_ij or softmax(x_i)_j
///   score_i = x_i1 - x_i0: two classes, the log-odds of the second
///
/// logits, dlogits: (batch, n) float32, float16 or bfloat16; labels: (batch, n) float32, (batch, 1)
/// for classes; prediction: (batch, n), score: (batch, 1) float32; the rows of these may be
/// strided. n is 1 but for pairs, at most 256, and classes, at least 2. weight: (batch), 0 for
/// padding, whose logits are not looked at; inv_weight_sum, loss: (1); loss_scale: (1) float32, 1
/// when absent: what mixed precision multiplies gradients by and the optimizers divide out again;
/// partial: (partial_rows(batch)) float64 scratch. target_weights: of pairs, empty: 1 each.
/// dlogits, prediction and score may be absent. Overwrites its outputs; one of dlogits and
/// prediction may be logits, when it has their dtype and score is absent. Deterministic.
template <class Entry>
struct HCTR_API CatalogueLoss : LossTensors {
  static constexpr auto kNameText = entry_op_name<Entry>("_loss");
  static constexpr const char* kName = kNameText.data();
  static constexpr std::string_view k16BitFields = "logits dlogits";
  double grad_scale = 1.0;
  std::vector<double> target_weights;
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
    if constexpr (OfClasses<Entry>) v.optional("score", Access::Out, score);
    v.tensor("partial", Access::Out, partial);
    v.attribute("grad_scale", grad_scale);
    if constexpr (OfPairs<Entry>) v.attribute("target_weights", target_weights);
    visit_fields(v, entry);
  }
  void check() const {
    check_loss(kName, *this, OfClasses<Entry>, OfPairs<Entry>, target_weights);
    check_fields(kName, entry);
  }
};

}  // namespace hugectr
