// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/memory/scratch.hpp"

#include "core/cpp/device/stream.hpp"
#include "core/cuda/device/status.hpp"
#include "core/cuda/memory/memory_pool.hpp"

namespace hugectr::cuda {

Scratch::Scratch(const OpContext& context, std::size_t bytes)
    : bytes_(bytes > 0 ? bytes : 1), stream_(static_cast<cudaStream_t>(context.stream->native())) {
  const cudaMemPool_t pool = memory_pool(context.device.index);
  HCTR_TRY(cudaMallocFromPoolAsync(&data_, bytes_, pool, stream_));
}

Scratch::~Scratch() { HCTR_TRY_NOTHROW(cudaFreeAsync(data_, stream_)); }

}  // namespace hugectr::cuda
