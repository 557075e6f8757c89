// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/layer_summary.hpp"

#include <utility>

#include "core/cpp/device/device_map.hpp"
#include "core/cpp/model/build.hpp"
#include "core/cpp/model/model_check.hpp"

namespace hugectr {

std::vector<LayerSummary> layer_summary(const ModelSpec& model, const NetworkGraph& graph) {
  std::vector<LayerSummary> rows;
  LayerSummary data{"Data", {}, {}, {}};
  for (const NetworkInput& input : graph.inputs()) {
    if (input.needs_gradient) continue;
    data.tops.push_back(input.name);
    data.top_shapes.push_back(input.shape);
  }
  for (const SparseInput& sparse : model.input.sparse) {
    data.tops.push_back(sparse.top_name);
    data.top_shapes.push_back({graph.inputs().front().shape[0], sparse.slot_num});
  }
  rows.push_back(data);
  for (const SparseEmbeddingSpec& spec : model.embeddings) {
    const std::string& top = spec.top.empty() ? spec.name : spec.top;
    rows.push_back({to_string(spec.type), spec.bottoms, {top}, {graph.top_shape(top)}});
  }
  for (const DenseLayerSpec& layer : graph.layers()) {
    LayerSummary row{layer.type, layer.bottoms, layer.tops, {}};
    for (const std::string& top : layer.tops) row.top_shapes.push_back(graph.top_shape(top));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<LayerSummary> layer_summary(const SolverSpec& solver, const ModelSpec& model) {
  check_solver(solver);
  check_model(model);
  const std::size_t devices = DeviceMap(solver.vvgpu, 0, solver.device_layout).size();
  return layer_summary(model, *make_graph(solver, model, devices, 1, true));
}

}  // namespace hugectr
