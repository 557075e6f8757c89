// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/serving/outputs.hpp"

#include "core/cpp/base/error.hpp"
#include "core/cpp/serving/predictor.hpp"

namespace hugectr {

Output output_of(const std::string& name, const NetworkGraph& graph) {
  for (const LossOutputs& loss : graph.losses()) {
    if (loss.name == name) return {loss.logits, {loss}};
  }
  if (name != Predictor::kProbability && name != Predictor::kLogit) return {name, {}};
  HCTR_CHECK(graph.has_loss(), "output '", name,
             "': the model has no loss, whose input it is: name a tensor");
  if (name == Predictor::kLogit) return {graph.logits_name(), {}};
  return {graph.logits_name(), graph.losses()};
}

void predict_rows(const Output& output, std::vector<float>& logits) {
  if (output.losses.empty()) return;
  float* at = logits.data();
  while (at != logits.data() + logits.size()) {
    for (const LossOutputs& loss : output.losses) {
      predict_row(loss.prediction, at, loss.columns);
      at += loss.columns;
    }
  }
}

}  // namespace hugectr
