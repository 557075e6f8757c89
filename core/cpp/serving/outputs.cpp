// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/serving/outputs.hpp"

#include "core/cpp/base/error.hpp"
#include "core/cpp/ops/elementwise/sigmoid.hpp"
#include "core/cpp/serving/predictor.hpp"

namespace hugectr {

std::string tensor_of(const std::string& output, const std::string& score) {
  if (output != Predictor::kProbability && output != Predictor::kLogit) return output;
  HCTR_CHECK(!score.empty(), "output '", output,
             "': the model has no loss, whose input it is: name a tensor");
  return score;
}

void to_probabilities(std::vector<float>& logits) {
  for (float& x : logits) x = sigmoid(x);
}

}  // namespace hugectr
