// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/label_inputs.hpp"

#include <algorithm>

#include "core/cpp/ops/cast.hpp"

namespace hugectr {
namespace {

/// Some columns of an input.
struct InputColumns {
  std::string input;
  std::size_t first = 0, count = 0;
};

void narrow(LabelRange& range, const LabelRange& by) {
  range.least = std::max(range.least, by.least);
  range.most = std::min(range.most, by.most);
  if (range.loss.empty()) {
    range.loss = by.loss;
  } else if (range.loss != by.loss) {
    range.loss += " and " + by.loss;
  }
}

}  // namespace

std::vector<LabelInput> label_inputs(const InputSpec& input) {
  if (!input.labels.empty()) return input.labels;
  return {{input.label_name, input.label_dim}};
}

std::map<std::string, std::vector<LabelRange>> label_ranges(
    const std::vector<NetworkInput>& inputs, const std::vector<std::unique_ptr<Layer>>& layers) {
  std::map<std::string, std::vector<LabelRange>> ranges;
  std::map<std::string, InputColumns> columns;
  for (const NetworkInput& input : inputs) {
    if (input.needs_gradient || input.shape.size() != 2) continue;
    ranges[input.name].resize(input.shape[1]);
    columns[input.name] = {input.name, 0, input.shape[1]};
  }
  const auto hold_to = [&](const std::string& tensor, const LabelRange& range) {
    const auto found = columns.find(tensor);
    if (found == columns.end()) return;
    const InputColumns& part = found->second;
    for (std::size_t k = 0; k < part.count; ++k) narrow(ranges[part.input][part.first + k], range);
  };
  for (const auto& layer : layers) {
    const DenseLayerSpec& spec = layer->spec();
    if (spec.type == "Slice" && columns.contains(spec.bottoms.front())) {
      const InputColumns whole = columns.at(spec.bottoms.front());
      const std::vector<std::int64_t> bounds = spec.attributes.get_ints("ranges");
      for (std::size_t i = 0; i < spec.tops.size(); ++i) {
        const auto begin = static_cast<std::size_t>(bounds[2 * i]);
        const auto end = static_cast<std::size_t>(bounds[2 * i + 1]);
        columns[spec.tops[i]] = {whole.input, whole.first + begin, end - begin};
      }
    }
    if (!layer->is_loss()) continue;
    hold_to(spec.bottoms[1], layer->labels());
    if (spec.bottoms.size() < 3) continue;
    LabelRange weights;
    weights.least = 0.0f;
    weights.loss = concat("the weight of ", spec.type);
    hold_to(spec.bottoms[2], weights);
  }
  return ranges;
}

std::vector<LabelRange> column_ranges(const InputSpec& input, const NetworkGraph& graph) {
  std::vector<LabelRange> all;
  for (const LabelInput& label : label_inputs(input)) {
    const auto found = graph.label_ranges().find(label.name);
    for (std::size_t k = 0; k < label.dim; ++k) {
      all.push_back(found == graph.label_ranges().end() ? LabelRange{} : found->second.at(k));
    }
  }
  return all;
}

void write_labels(const OpContext& context, const InputSpec& input, const TensorRef& batch,
                  const std::function<TensorRef(const std::string&)>& tensor) {
  std::size_t first = 0;
  for (const LabelInput& label : label_inputs(input)) {
    TensorRef columns = batch;
    columns.data = batch.ptr<float>() + first;
    columns.shape[1] = label.dim;
    first += label.dim;
    const TensorRef to = tensor(label.name);
    if (!to.empty()) run(context, Cast{.x = columns, .y = to});
  }
}

}  // namespace hugectr
