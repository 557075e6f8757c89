// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/parameter_layout.hpp"

#include <algorithm>

#include "core/cpp/base/error.hpp"

namespace hugectr {

void ParameterLayout::add(std::size_t elements) {
  offsets_.push_back(flat_size_);
  sizes_.push_back(elements);
  count_ += elements;
  flat_size_ += (elements + kAlign - 1) / kAlign * kAlign;
}

std::vector<float> ParameterLayout::spread(const std::vector<float>& packed) const {
  if (count_ == 0) return {};
  HCTR_CHECK(packed.size() % count_ == 0, packed.size(), " values are no multiple of the ", count_,
             " parameters");
  std::vector<float> flat(packed.size() / count_ * flat_size_, 0.0f);
  auto from = packed.begin();
  for (auto array = flat.begin(); array != flat.end();
       array += static_cast<std::ptrdiff_t>(flat_size_)) {
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      const auto end = from + static_cast<std::ptrdiff_t>(sizes_[i]);
      std::copy(from, end, array + static_cast<std::ptrdiff_t>(offsets_[i]));
      from = end;
    }
  }
  return flat;
}

std::vector<float> ParameterLayout::pack(const std::vector<float>& flat) const {
  if (count_ == 0) return {};
  HCTR_CHECK(flat.size() % flat_size_ == 0, flat.size(), " values are no multiple of the ",
             flat_size_, " of a flat buffer");
  std::vector<float> packed;
  packed.reserve(flat.size() / flat_size_ * count_);
  for (auto array = flat.begin(); array != flat.end();
       array += static_cast<std::ptrdiff_t>(flat_size_)) {
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      const auto begin = array + static_cast<std::ptrdiff_t>(offsets_[i]);
      packed.insert(packed.end(), begin, begin + static_cast<std::ptrdiff_t>(sizes_[i]));
    }
  }
  return packed;
}

}  // namespace hugectr
