// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr::cuda {

/// Memory of a device, from its pool. As everywhere, who deallocates has waited for the work that
/// uses the memory.
std::shared_ptr<MemoryResource> make_cuda_memory_resource(int device);

/// Pinned host memory: copies to and from any device overlap with work.
std::shared_ptr<MemoryResource> make_pinned_memory_resource();

/// Memory that the host and the device both reach, and the driver moves. Never more than the
/// device has free: oversubscribed managed memory can stall a GPU.
std::shared_ptr<MemoryResource> make_managed_memory_resource(int device);

}  // namespace hugectr::cuda
