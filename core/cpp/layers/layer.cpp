// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/layer.hpp"

#include "core/cpp/layers/registry.hpp"

namespace hugectr {

void Layer::expect(std::size_t min_bottoms, std::size_t max_bottoms, std::size_t tops) const {
  const std::size_t bottoms = spec_.bottoms.size();
  HCTR_CHECK(!spec_.tops.empty(), spec_.type, " layer has no top: give it a name in top_names");
  if (max_bottoms == 0) {
    HCTR_CHECK(bottoms >= min_bottoms, spec_.type, " layer \"", name(), "\" has ", bottoms,
               " bottoms, needs at least ", min_bottoms);
  } else if (min_bottoms == max_bottoms) {
    HCTR_CHECK(bottoms == min_bottoms, spec_.type, " layer \"", name(), "\" has ", bottoms,
               " bottoms, needs exactly ", min_bottoms);
  } else {
    HCTR_CHECK(bottoms >= min_bottoms && bottoms <= max_bottoms, spec_.type, " layer \"", name(),
               "\" has ", bottoms, " bottoms, needs ", min_bottoms, " to ", max_bottoms);
  }
  HCTR_CHECK(spec_.tops.size() == tops, spec_.type, " layer \"", name(), "\" has ",
             spec_.tops.size(), " tops, needs exactly ", tops);
}

std::unique_ptr<Layer> make_layer(const DenseLayerSpec& spec) {
  for (const LayerFactory& factory : layer_registry()) {
    if (spec.type == factory.type) return factory.make(spec);
  }
  std::string known;
  for (const std::string& type : layer_types()) known += (known.empty() ? "" : ", ") + type;
  throw InvalidArgument(concat("layer \"", spec.tops.empty() ? "" : spec.tops.front(),
                               "\": unknown layer type \"", spec.type, "\"; known types: ", known));
}

std::vector<std::string> layer_types() {
  std::vector<std::string> types;
  for (const LayerFactory& factory : layer_registry()) types.emplace_back(factory.type);
  return types;
}

}  // namespace hugectr
