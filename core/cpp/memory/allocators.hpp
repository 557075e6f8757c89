// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string_view>
#include <utility>

#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr {

/// Allocator policies of GeneralBuffer2: {device, allocate(bytes, owner), deallocate}. The CUDA
/// ones (CudaAllocator, CudaHostAllocator, CudaManagedAllocator) live in core/cuda/memory.

/// Any device's memory, through its MemoryResource; the one that device-free code uses.
class DeviceAllocator {
 public:
  explicit DeviceAllocator(std::shared_ptr<MemoryResource> resource)
      : resource_(std::move(resource)) {}
  DeviceId device() const { return resource_->device(); }
  void* allocate(std::size_t bytes, std::string_view owner) {
    return resource_->allocate(bytes, owner);
  }
  void deallocate(void* data, std::size_t bytes) noexcept { resource_->deallocate(data, bytes); }

 private:
  std::shared_ptr<MemoryResource> resource_;
};

/// Ordinary host memory.
class HostAllocator : public DeviceAllocator {
 public:
  HostAllocator() : DeviceAllocator(make_host_memory_resource()) {}
};

}  // namespace hugectr
