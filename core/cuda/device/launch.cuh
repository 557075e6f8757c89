// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/cpp/device/op.hpp"
#include "core/cpp/device/stream.hpp"
#include "core/cuda/driver/status.hpp"

/// The only way a kernel is launched.
namespace hugectr::cuda {

/// The native stream of a context whose device is CUDA.
inline cudaStream_t native_stream(const OpContext& context) {
  return static_cast<cudaStream_t>(context.stream->native());
}

/// True when HUGECTR_SYNC=1: every launch is waited for, so that an error names its kernel.
bool sync_every_launch();
/// Throws InvalidArgument naming the kernel for a launch no device can run; counts the others.
void check_launch(const char* kernel, dim3 grid, dim3 block, std::size_t shared_bytes);

#ifdef __CUDACC__  // the rest serves host code too
/// Dynamic shared memory that a kernel has without asking: 48 KB less what it declares itself.
inline constexpr std::size_t kSharedUnasked = 16 * 1024;

/// Lets a kernel have so much dynamic shared memory on the current device.
template <class... Params>
void allow_shared(void (*kernel)(Params...), std::size_t bytes, const char* name) {
  if (bytes <= kSharedUnasked) return;
  check_status(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(bytes)),
               name, __FILE__, __LINE__);
}

/// Launches `kernel` and checks the launch. A grid of zero blocks is no work, not an error.
template <class... Params, class... Args>
void launch(const OpContext& context, const char* name, dim3 grid, dim3 block,
            std::size_t shared_bytes, void (*kernel)(Params...), Args&&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  check_launch(name, grid, block, shared_bytes);
  allow_shared(kernel, shared_bytes, name);
  kernel<<<grid, block, shared_bytes, native_stream(context)>>>(
      static_cast<Params>(std::forward<Args>(args))...);
  check_status(cudaPeekAtLastError(), name, __FILE__, __LINE__);
  if (sync_every_launch()) {
    check_status(cudaStreamSynchronize(native_stream(context)), name, __FILE__, __LINE__);
  }
}

/// Blocks of so many threads, with so much dynamic shared memory, that one multiprocessor of the
/// current device runs at once.
template <class... Params>
unsigned resident_blocks(void (*kernel)(Params...), int threads, std::size_t shared_bytes = 0) {
  allow_shared(kernel, shared_bytes, "resident_blocks");
  int blocks = 0;
  HCTR_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_bytes));
  return static_cast<unsigned>(std::max(1, blocks));
}
#endif

/// Multiprocessors of the current device, and the most shared memory a block may ask for.
unsigned processor_count();
std::size_t shared_bytes_of_block();

/// Blocks for a grid-stride loop over n items: enough to fill the device, never more than needed.
unsigned grid_for(std::size_t items, unsigned items_per_block);

}  // namespace hugectr::cuda
