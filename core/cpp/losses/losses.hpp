// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tuple>
#include <vector>

#include "core/cpp/base/catalogue.hpp"
#include "core/cpp/losses/binary_cross_entropy.hpp"
#include "core/cpp/losses/cross_entropy.hpp"
#include "core/cpp/losses/huber.hpp"
#include "core/cpp/losses/mse.hpp"
#include "core/cpp/losses/multi_cross_entropy.hpp"

/// The catalogue of losses: the one list that ops, kernels and layers are made from and that Python
/// is told.
namespace hugectr {

using Losses = std::tuple<BinaryCrossEntropy, CrossEntropy, MultiCrossEntropy, Mse, Huber>;

struct LossDescription : EntryDescription {
  std::string op;  ///< kOp: what parameters and JSON keys begin with
  float least_label = 0.0f, most_label = 0.0f;
  std::string prediction;  ///< "sigmoid", "identity" or "softmax" of the logits
};

HCTR_API std::vector<LossDescription> describe_losses();

}  // namespace hugectr
