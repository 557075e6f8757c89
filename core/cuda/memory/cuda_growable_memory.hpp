// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr::cuda {

/// GrowableMemory of a device: address space is reserved once, pages (2 MiB) are mapped as it
/// grows. Throws OutOfMemory when there is no such address space.
std::unique_ptr<GrowableMemory> make_cuda_growable_memory(int device, std::size_t max_bytes,
                                                          std::string_view owner);

}  // namespace hugectr::cuda
