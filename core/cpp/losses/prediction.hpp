// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// What a loss's logits say of a sample.
enum class Prediction {
  Sigmoid,   ///< a probability each
  Identity,  ///< the value itself
  Softmax,   ///< together the probabilities of as many classes
};

/// "sigmoid", "identity", "softmax".
HCTR_API std::string to_string(Prediction kind);

/// Turns the `columns` logits of a sample into predictions, in place, with the bits of the loss op.
HCTR_API void predict_row(Prediction kind, float* logits, std::size_t columns);

}  // namespace hugectr
