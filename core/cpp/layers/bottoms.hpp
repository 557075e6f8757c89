// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "core/cpp/layers/layer.hpp"

/// What nearly every layer asks of its bottoms.
namespace hugectr {

inline std::vector<TensorRef> bottoms_of(const Layer& layer, const LayerBuilder& builder) {
  std::vector<TensorRef> refs;
  for (const std::string& name : layer.spec().bottoms) refs.push_back(builder.bottom(name));
  return refs;
}

/// Throws InvalidArgument naming layer, bottom, shape found and shape wanted unless `ok`.
inline void check_bottom(const Layer& layer, std::size_t index, const TensorRef& bottom, bool ok,
                         const std::string& wanted) {
  HCTR_CHECK(ok, layer.spec().type, " layer \"", layer.name(), "\": bottom \"",
             layer.spec().bottoms.at(index), "\" has shape ", to_string(bottom.shape), ", must be ",
             wanted);
}

/// Throws InvalidArgument unless all bottoms have the shape of the first.
inline void check_equal_bottoms(const Layer& layer, const std::vector<TensorRef>& bottoms) {
  for (std::size_t i = 1; i < bottoms.size(); ++i) {
    check_bottom(layer, i, bottoms[i], bottoms[i].shape == bottoms[0].shape,
                 to_string(bottoms[0].shape) + " like bottom \"" + layer.spec().bottoms[0] + "\"");
  }
}

inline bool any_bottom_needs_gradient(const Layer& layer, const LayerBuilder& builder) {
  const auto& names = layer.spec().bottoms;
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return builder.needs_gradient(name); });
}

/// For layers without parameters, in forward(): tops of bottoms that need no gradient need none.
inline void pass_on_no_gradient(const Layer& layer, LayerBuilder& builder) {
  if (any_bottom_needs_gradient(layer, builder)) return;
  for (const std::string& top : layer.spec().tops) builder.mark_no_gradient(top);
}

/// The bottom's gradient, or an empty ref (an op's optional tensor) when it needs none.
inline TensorRef gradient_if_needed(LayerBuilder& builder, const std::string& name) {
  return builder.needs_gradient(name) ? builder.gradient(name) : TensorRef{};
}

}  // namespace hugectr
