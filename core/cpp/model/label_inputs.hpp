// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/label_range.hpp"
#include "core/cpp/layers/layer.hpp"
#include "core/cpp/model/network_graph.hpp"
#include "core/cpp/model/spec.hpp"

/// From the label columns of the data to what losses read.
namespace hugectr {

/// The labels by name: those of `input.labels`, else the one.
std::vector<LabelInput> label_inputs(const InputSpec& input);

/// What the losses among `layers` allow in each column of the inputs they read, also through Slice
/// layers; by the name of the input. Weights of losses: from 0 on.
std::map<std::string, std::vector<LabelRange>> label_ranges(
    const std::vector<NetworkInput>& inputs, const std::vector<std::unique_ptr<Layer>>& layers);

/// The ranges of all label columns of the data, in their order.
std::vector<LabelRange> column_ranges(const InputSpec& input, const NetworkGraph& graph);

/// Copies the columns of a batch's labels, (b, label_dim), into the network's inputs. `tensor`:
/// those by name, empty for one that the network does not have.
void write_labels(const OpContext& context, const InputSpec& input, const TensorRef& batch,
                  const std::function<TensorRef(const std::string&)>& tensor);

}  // namespace hugectr
