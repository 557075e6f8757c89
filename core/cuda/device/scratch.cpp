// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/scratch.hpp"

#include "core/cuda/device/cuda_stream.hpp"

namespace hugectr::cuda {

Scratch::Scratch(const OpContext& context, std::size_t bytes)
    : arena_(cuda_stream(*context.stream).scratch()),
      bytes_(bytes > 0 ? bytes : 1),
      data_(arena_.take(bytes_)) {}

Scratch::~Scratch() { arena_.give_back(); }

}  // namespace hugectr::cuda
