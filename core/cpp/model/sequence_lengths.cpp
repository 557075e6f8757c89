// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/sequence_lengths.hpp"

#include <algorithm>

#include "core/cpp/ops/slot_lengths.hpp"

namespace hugectr {

std::string lengths_name(const SparseInput& input) { return input.top_name + "_lengths"; }

bool reads_lengths(const ModelSpec& model, const SparseInput& input) {
  const std::string name = lengths_name(input);
  const auto names_it = [&](const std::vector<std::string>& tensors) {
    return std::ranges::find(tensors, name) != tensors.end();
  };
  return std::ranges::any_of(
             model.layers, [&](const DenseLayerSpec& layer) { return names_it(layer.bottoms); }) &&
         std::ranges::none_of(model.layers,
                              [&](const DenseLayerSpec& layer) { return names_it(layer.tops); });
}

void write_lengths(const OpContext& context, const InputSpec& input,
                   std::span<const SparseTensor> sparse, std::size_t first_sample,
                   const TensorOf& tensor) {
  for (std::size_t i = 0; i < input.sparse.size(); ++i) {
    const TensorRef lengths = tensor(lengths_name(input.sparse[i]));
    if (lengths.empty()) continue;
    const std::size_t first_row = first_sample * input.sparse[i].slot_num;
    run(context, SlotLengths{.row_offsets = sparse[i].row_offsets,
                             .lengths = lengths,
                             .first_row = static_cast<std::int64_t>(first_row)});
  }
}

}  // namespace hugectr
