// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/device/op.hpp"
#include "core/cuda/memory/scratch_arena.hpp"

namespace hugectr::cuda {

/// Memory for the inside of one op (temporary storage of CUB), taken from the stream's arena and
/// given back in stream order: kernels launched before the object goes may still use it.
class Scratch {
 public:
  /// Uninitialised, aligned to 256 bytes. Zero bytes give a pointer that is not null, as CUB wants.
  /// Throws OutOfMemory.
  Scratch(const OpContext& context, std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  ScratchArena& arena_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace hugectr::cuda
