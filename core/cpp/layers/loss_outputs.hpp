// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>

#include "core/cpp/losses/prediction.hpp"

namespace hugectr {

/// What a loss of a network reads and makes, by the names of tensors: what evaluations and
/// predictions are made of.
struct LossOutputs {
  std::string name;            ///< the layer's top
  std::string logits, labels;  ///< its bottoms
  Prediction prediction = Prediction::Sigmoid;
  std::size_t columns = 1;  ///< of the logits
  double weight = 1.0;      ///< its part in what training minimises
  std::string loss;         ///< (1) this device's share of it; "": the network has no other loss

  // Of evaluation.
  std::string predictions;  ///< (b, columns) float32
  /// Rank the samples: (b, columns) of any float type; of two classes (b, 1); "": of more.
  std::string scores;
  std::string weights;           ///< "": those of the samples
  bool weight_a_column = false;  ///< weights are (columns, b), else (b)
};

}  // namespace hugectr
