// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/memory/allocators.hpp"
#include "core/cuda/memory/cuda_memory_resource.hpp"

/// Allocator policies of GeneralBuffer2 on CUDA; see core/cpp/memory/allocators.hpp.
namespace hugectr::cuda {

/// Memory of one device.
class CudaAllocator : public DeviceAllocator {
 public:
  explicit CudaAllocator(int device) : DeviceAllocator(make_cuda_memory_resource(device)) {}
};

/// Pinned host memory.
class CudaHostAllocator : public DeviceAllocator {
 public:
  CudaHostAllocator() : DeviceAllocator(make_pinned_memory_resource()) {}
};

/// Memory that the host and one device both reach.
class CudaManagedAllocator : public DeviceAllocator {
 public:
  explicit CudaManagedAllocator(int device)
      : DeviceAllocator(make_managed_memory_resource(device)) {}
};

}  // namespace hugectr::cuda
