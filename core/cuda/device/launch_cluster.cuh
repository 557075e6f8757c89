// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cuda/device/launch.cuh"

namespace hugectr::cuda {

/// Whether blocks of the current device can be a cluster (compute capability 9.0 and above).
inline bool has_clusters() {
  int device = 0, major = 0;
  HCTR_TRY(cudaGetDevice(&device));
  HCTR_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major >= 9;
}

/// launch() of up to 8 blocks, without dynamic shared memory, on neighbouring multiprocessors (one
/// cluster) where the device has that.
template <class... Params, class... Args>
void launch_cluster(const OpContext& context, const char* name, unsigned blocks, unsigned threads,
                    void (*kernel)(Params...), Args&&... args) {
  if (blocks == 0) return;
  if (!has_clusters()) {
    return launch(context, name, dim3(blocks), dim3(threads), 0, kernel,
                  std::forward<Args>(args)...);
  }
  check_launch(name, dim3(blocks), dim3(threads), 0);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = blocks;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = native_stream(context);
  config.attrs = &cluster;
  config.numAttrs = 1;
  check_status(
      cudaLaunchKernelEx(&config, kernel, static_cast<Params>(std::forward<Args>(args))...), name,
      __FILE__, __LINE__);
  if (sync_every_launch()) {
    check_status(cudaStreamSynchronize(native_stream(context)), name, __FILE__, __LINE__);
  }
}

}  // namespace hugectr::cuda
