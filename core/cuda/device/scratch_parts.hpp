// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cuda/device/scratch.hpp"

namespace hugectr::cuda {

/// Parts of one piece of scratch memory, each aligned to 256 bytes.
class ScratchParts {
 public:
  /// Where part() finds `count` elements.
  template <class T>
  std::size_t add(std::size_t count) {
    const std::size_t at = bytes_;
    bytes_ += (count * sizeof(T) + 255) / 256 * 256;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

template <class T>
T* part(const Scratch& scratch, std::size_t at) {
  return reinterpret_cast<T*>(static_cast<char*>(scratch.data()) + at);
}

}  // namespace hugectr::cuda
