// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/shape.hpp"

#include "core/cpp/base/error.hpp"

namespace hugectr {

void Shape::throw_too_many(std::size_t count) {
  throw InvalidArgument(
      concat("a tensor of ", count, " dimensions: there can be ", kMost, " at most"));
}

std::size_t num_elements(const Shape& shape) {
  std::size_t n = 1;
  for (const std::size_t d : shape) {
    HCTR_CHECK(!__builtin_mul_overflow(n, d, &n), "a tensor of shape ", to_string(shape),
               " has more elements than can be counted");
  }
  return n;
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + ")";
}

}  // namespace hugectr
