// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/scratch.hpp"

#include <optional>

#include "core/cpp/memory/memory_resource.hpp"
#include "core/cuda/device/cuda_stream.hpp"
#include "core/cuda/device/launch.cuh"

namespace hugectr::cuda {

Scratch::Scratch(const OpContext& context, std::size_t bytes)
    : arena_(cuda_stream(*context.stream).scratch()),
      bytes_(bytes > 0 ? bytes : 1),
      data_(arena_.take(bytes_)) {
  const std::optional<unsigned char> fill = fill_of_memory();
  if (!fill) return;
  try {
    HCTR_TRY(cudaMemsetAsync(data_, *fill, bytes_, native_stream(context)));
  } catch (...) {
    arena_.give_back();
    throw;
  }
}

Scratch::~Scratch() { arena_.give_back(); }

}  // namespace hugectr::cuda
