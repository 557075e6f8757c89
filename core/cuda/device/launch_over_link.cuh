// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>

#include "core/cuda/device/launch.cuh"

namespace hugectr::cuda {

/// Whether kernels may be given a domain of memory ordering, on the current device (9.0 and later).
bool has_memory_domains();

#ifdef __CUDACC__
/// As launch(), for kernels that write to memory beyond a link. A kernel that ends waits until what
/// was written before is visible, and the hardware does not know which kernel wrote it: without a
/// domain of its own each kernel of other streams waits for writes on their way to the host
/// ("Memory Synchronization Domains" in CUDA's programming guide). What the host has ordered, by
/// streams and events, sees these writes as ever; kernels that run at the same time may not wait
/// for them by fences of the device.
template <class... Params, class... Args>
void launch_over_link(const OpContext& context, const char* name, dim3 grid, dim3 block,
                      void (*kernel)(Params...), Args&&... args) {
  if (!has_memory_domains()) {
    return launch(context, name, grid, block, 0, kernel, std::forward<Args>(args)...);
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  check_launch(name, grid, block, 0);
  cudaLaunchAttribute domain{};
  domain.id = cudaLaunchAttributeMemSyncDomain;
  domain.val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = native_stream(context);
  config.attrs = &domain;
  config.numAttrs = 1;
  check_status(
      cudaLaunchKernelEx(&config, kernel, static_cast<Params>(std::forward<Args>(args))...), name,
      __FILE__, __LINE__);
  if (sync_every_launch()) {
    check_status(cudaStreamSynchronize(native_stream(context)), name, __FILE__, __LINE__);
  }
}
#endif

}  // namespace hugectr::cuda
