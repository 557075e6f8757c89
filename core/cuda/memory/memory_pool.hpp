// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <vector>

namespace hugectr::cuda {

/// This project's own stream-ordered pool of a device; it keeps what is freed for later
/// allocations. Made at the first call, there as long as the program.
cudaMemPool_t memory_pool(int device);

/// A stream for allocations and for clearing new memory, which no other work waits in.
cudaStream_t memory_stream(int device);

/// Gives what the pool keeps unused back to the device: what to do before memory runs out.
void trim_memory_pool(int device) noexcept;

/// Lets the devices reach each other's pool and the memory reserved from now on: collectives
/// inside a process read the other devices' buffers in place. Devices that can not reach each
/// other are left as they are.
void share_memory_between(const std::vector<int>& devices);

/// The device itself and those that share_memory_between() let reach its memory.
std::vector<int> devices_with_access(int device);

/// "1.5 GiB free of 79.1 GiB" of the current device, for messages.
const char* describe_free_memory(char (&text)[96]) noexcept;

}  // namespace hugectr::cuda
