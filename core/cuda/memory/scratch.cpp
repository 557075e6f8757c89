// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/memory/scratch.hpp"

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/stream.hpp"
#include "core/cuda/device/status.hpp"
#include "core/cuda/memory/memory_pool.hpp"

namespace hugectr::cuda {

Scratch::Scratch(const OpContext& context, std::size_t bytes)
    : bytes_(bytes > 0 ? bytes : 1), stream_(static_cast<cudaStream_t>(context.stream->native())) {
  const int device = context.device.index;
  const cudaMemPool_t pool = memory_pool(device);
  cudaError_t status = cudaMallocFromPoolAsync(&data_, bytes_, pool, stream_);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    trim_memory_pool(device);  // pieces that are too small become one
    status = cudaMallocFromPoolAsync(&data_, bytes_, pool, stream_);
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    char text[96];
    throw OutOfMemory(concat("an operation asks for ", bytes_, " bytes of scratch memory of CUDA ",
                             "device ", device, ": ", describe_free_memory(text),
                             "; use a smaller batch or table budget, or end what else uses it"));
  }
  check_status(status, "cudaMallocFromPoolAsync", __FILE__, __LINE__);
}

Scratch::~Scratch() { HCTR_TRY_NOTHROW(cudaFreeAsync(data_, stream_)); }

}  // namespace hugectr::cuda
