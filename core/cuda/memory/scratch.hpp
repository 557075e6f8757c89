// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

#include "core/cpp/device/op.hpp"

namespace hugectr::cuda {

/// Memory for the inside of one op (temporary storage of CUB), taken from the device's pool and
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
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  cudaStream_t stream_ = nullptr;
};

}  // namespace hugectr::cuda
