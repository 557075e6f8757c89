// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/model/network_graph.hpp"
#include "core/cpp/model/spec.hpp"

namespace hugectr {

/// A row of Model.summary().
struct LayerSummary {
  std::string type;
  std::vector<std::string> bottoms, tops;
  std::vector<Shape> top_shapes;  ///< dimension 0 is the local batch
};

/// The data, the tables and the layers of a model, automatic Slice layers included.
std::vector<LayerSummary> layer_summary(const ModelSpec& model, const NetworkGraph& graph);

/// The same of a model that is on no device yet. Throws InvalidArgument for specs that can not be a
/// model.
HCTR_API std::vector<LayerSummary> layer_summary(const SolverSpec& solver, const ModelSpec& model);

}  // namespace hugectr
