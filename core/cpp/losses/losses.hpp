// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tuple>
#include <vector>

#include "core/cpp/base/catalogue.hpp"
#include "core/cpp/losses/binary_cross_entropy.hpp"

/// The catalogue of losses: the one list that ops, kernels and layers are made from and that Python
/// is told.
namespace hugectr {

using Losses = std::tuple<BinaryCrossEntropy>;

struct LossDescription : EntryDescription {
  std::string op;  ///< kOp: what parameters and JSON keys begin with
  float least_label = 0.0f, most_label = 0.0f;
};

HCTR_API std::vector<LossDescription> describe_losses();

}  // namespace hugectr
