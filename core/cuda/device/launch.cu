// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/work_counts.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/driver/device_guard.hpp"

namespace hugectr::cuda {
namespace {

constexpr int kCachedDevices = 64;

/// An attribute of the current device, asked from the driver once.
template <cudaDeviceAttr attribute>
int attribute_of_current_device() {
  static std::array<std::atomic<int>, kCachedDevices> known{};
  const int device = current_device();
  int value = device < kCachedDevices ? known[device].load(std::memory_order_relaxed) : 0;
  if (value == 0) {
    HCTR_TRY(cudaDeviceGetAttribute(&value, attribute, device));
    if (device < kCachedDevices) known[device].store(value, std::memory_order_relaxed);
  }
  return value;
}

}  // namespace

bool sync_every_launch() {
  static const bool on = [] {
    const char* value = std::getenv("HUGECTR_SYNC");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return on;
}

void check_launch(const char* kernel, dim3 grid, dim3 block, std::size_t shared_bytes) {
  count_launch();
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  HCTR_CHECK(threads >= 1 && threads <= 1024 && block.z <= 64, "kernel ", kernel, ": a block of ",
             block.x, " x ", block.y, " x ", block.z, " threads can not run (1 to 1024)");
  HCTR_CHECK(grid.x <= 2147483647u && grid.y <= 65535 && grid.z <= 65535, "kernel ", kernel,
             ": a grid of ", grid.x, " x ", grid.y, " x ", grid.z,
             " blocks can not run: use a smaller batch");
  if (shared_bytes > 48 * 1024) {
    const std::size_t most = shared_bytes_of_block();
    HCTR_CHECK(shared_bytes <= most, "kernel ", kernel, " needs ", shared_bytes,
               " bytes of shared memory a block, this GPU has ", most);
  }
}

unsigned processor_count() {
  return static_cast<unsigned>(attribute_of_current_device<cudaDevAttrMultiProcessorCount>());
}

std::size_t shared_bytes_of_block() {
  return static_cast<std::size_t>(
      attribute_of_current_device<cudaDevAttrMaxSharedMemoryPerBlockOptin>());
}

unsigned grid_for(std::size_t items, unsigned items_per_block) {
  // 16 blocks a multiprocessor: enough to hide latency at any block size from 128 threads up.
  constexpr std::size_t kBlocksPerProcessor = 16;
  if (items == 0) return 0;
  const std::size_t needed = (items + items_per_block - 1) / items_per_block;
  const std::size_t full = kBlocksPerProcessor * processor_count();
  return static_cast<unsigned>(needed < full ? needed : full);
}

}  // namespace hugectr::cuda
