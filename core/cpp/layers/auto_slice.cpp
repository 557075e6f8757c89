// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/auto_slice.hpp"

#include <map>

namespace hugectr {
namespace {

using UseCounts = std::map<std::string, std::int64_t>;

UseCounts count_uses(const std::vector<DenseLayerSpec>& layers,
                     const std::set<std::string>& shared) {
  UseCounts uses;
  for (const DenseLayerSpec& layer : layers) {
    for (const std::string& bottom : layer.bottoms) {
      if (shared.count(bottom) == 0) ++uses[bottom];
    }
  }
  return uses;
}

std::set<std::string> tensor_names(const std::vector<DenseLayerSpec>& layers) {
  std::set<std::string> names;
  for (const DenseLayerSpec& layer : layers) {
    names.insert(layer.bottoms.begin(), layer.bottoms.end());
    names.insert(layer.tops.begin(), layer.tops.end());
  }
  return names;
}

DenseLayerSpec make_slice_spec(const std::string& tensor, std::int64_t copies,
                               std::set<std::string>& names) {
  DenseLayerSpec slice{.type = "Slice", .bottoms = {tensor}};
  for (int number = 0; static_cast<std::int64_t>(slice.tops.size()) < copies; ++number) {
    const std::string top = tensor + "_slice" + std::to_string(number);
    if (names.insert(top).second) slice.tops.push_back(top);
  }
  slice.attributes.set("copies", copies);
  return slice;
}

}  // namespace

std::vector<DenseLayerSpec> insert_slices(const std::vector<DenseLayerSpec>& layers,
                                          const std::set<std::string>& shared) {
  const UseCounts uses = count_uses(layers, shared);
  std::set<std::string> names = tensor_names(layers), made;
  std::map<std::string, DenseLayerSpec> slices;
  for (const auto& [tensor, count] : uses) {
    if (count > 1) slices[tensor] = make_slice_spec(tensor, count, names);
  }
  for (const DenseLayerSpec& layer : layers) made.insert(layer.tops.begin(), layer.tops.end());

  std::vector<DenseLayerSpec> result;
  for (const auto& [tensor, slice] : slices) {
    if (made.count(tensor) == 0) result.push_back(slice);
  }
  std::map<std::string, std::size_t> next;
  for (DenseLayerSpec layer : layers) {
    for (std::string& bottom : layer.bottoms) {
      const auto it = slices.find(bottom);
      if (it != slices.end()) bottom = it->second.tops[next[it->first]++];
    }
    const std::vector<std::string> tops = layer.tops;
    result.push_back(std::move(layer));
    for (const std::string& top : tops) {
      const auto it = slices.find(top);
      if (it != slices.end()) result.push_back(it->second);
    }
  }
  return result;
}

}  // namespace hugectr
