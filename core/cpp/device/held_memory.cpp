// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/held_memory.hpp"

#include <algorithm>
#include <memory>

#include "core/cpp/device/device_backend.hpp"

namespace hugectr {
namespace {

/// Of an allocation: small, so that none is refused for being more than a machine has in all.
constexpr std::size_t kHeldPiece = std::size_t{64} << 20;
constexpr std::size_t kSmallestPage = 4096;

}  // namespace

void hold_memory(DeviceId device, bool on_host, std::size_t bytes) {
  DeviceBackend& backend = DeviceBackend::get(device.type);
  const std::shared_ptr<MemoryResource> memory =
      on_host ? backend.staging_resource(device) : backend.memory_resource(device);
  for (std::size_t at = 0; at < bytes; at += kHeldPiece) {
    const std::size_t piece = std::min(kHeldPiece, bytes - at);
    auto* const data = static_cast<volatile char*>(memory->allocate(piece, "a model's plan"));
    if (!on_host && device.type != DeviceType::Cpu) continue;
    for (std::size_t byte = 0; byte < piece; byte += kSmallestPage) data[byte] = 1;
  }
}

}  // namespace hugectr
