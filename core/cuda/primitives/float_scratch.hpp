// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <initializer_list>

#include "core/cuda/device/scratch.hpp"

namespace hugectr::cuda {

constexpr std::size_t round_up(std::size_t n, std::size_t step) {
  return (n + step - 1) / step * step;
}

/// Scratch cut into arrays that begin 256 bytes apart.
class FloatScratch {
 public:
  explicit FloatScratch(const OpContext& ctx, std::initializer_list<std::size_t> sizes)
      : scratch_(ctx, bytes(sizes)), next_(static_cast<float*>(scratch_.data())) {}
  float* take(std::size_t size) {
    float* result = next_;
    next_ += round_up(size, 64);
    return result;
  }

 private:
  static std::size_t bytes(std::initializer_list<std::size_t> sizes) {
    std::size_t total = 0;
    for (const std::size_t size : sizes) total += round_up(size, 64) * sizeof(float);
    return total;
  }
  cuda::Scratch scratch_;
  float* next_;
};

}  // namespace hugectr::cuda
