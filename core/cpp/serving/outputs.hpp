// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/cpp/model/network_graph.hpp"

namespace hugectr {

/// What an output is made of: a tensor of the evaluation graph, and where it is predictions the
/// losses whose logits lie side by side in its rows.
struct Output {
  std::string tensor;
  std::vector<LossOutputs> losses;
};

/// `name`: "probability", the predictions of all losses; "logit", their inputs; a loss, its
/// predictions; or a tensor. InvalidArgument where there is no loss for the first two.
Output output_of(const std::string& name, const NetworkGraph& graph);

/// Logits to predictions, row by row, as the losses make them.
void predict_rows(const Output& output, std::vector<float>& logits);

}  // namespace hugectr
