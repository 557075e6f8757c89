// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tuple>
#include <vector>

#include "core/cpp/base/catalogue.hpp"
#include "core/cpp/ops/elementwise/elu.hpp"
#include "core/cpp/ops/elementwise/relu.hpp"
#include "core/cpp/ops/elementwise/sigmoid.hpp"
#include "core/cpp/ops/elementwise/softplus.hpp"
#include "core/cpp/ops/elementwise/tanh.hpp"

/// The catalogue of activations: the one list that ops, kernels and layers are made from and that
/// Python is told.
namespace hugectr {

using Activations = std::tuple<Relu, Sigmoid, Elu, Tanh, Softplus>;

struct ActivationDescription : EntryDescription {
  std::string op;  ///< kOp: what parameters and JSON keys begin with
};

HCTR_API std::vector<ActivationDescription> describe_activations();

}  // namespace hugectr
