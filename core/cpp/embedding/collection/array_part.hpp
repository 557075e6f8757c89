// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <utility>

#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

/// Elements begin, begin + 1, ... of packed memory, as an array of this shape.
inline TensorRef array_part(const TensorRef& from, std::size_t begin, Shape shape) {
  TensorRef ref = from;
  ref.data = static_cast<char*>(from.data) + begin * size_of(from.dtype);
  ref.shape = std::move(shape);
  ref.row_stride = ref.row_size();
  return ref;
}

}  // namespace hugectr
