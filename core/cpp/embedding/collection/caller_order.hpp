// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/device/stream.hpp"

namespace hugectr {

/// Where a call stands in the order of its caller's stream (0 on the CPU): what that holds comes
/// before what `stream` gets from now on.
inline void follow_caller(Stream& stream, std::uintptr_t caller) {
  const DeviceId device = stream.device();
  if (device.type == DeviceType::Cpu) return;
  DeviceBackend::get(device.type)
      .order_streams({device, reinterpret_cast<void*>(caller)}, {device, stream.native()});
}

/// What `stream` holds comes before what the caller's gets later. On the CPU: waits for it.
inline void precede_caller(Stream& stream, std::uintptr_t caller) {
  const DeviceId device = stream.device();
  if (device.type == DeviceType::Cpu) return stream.synchronize();
  DeviceBackend::get(device.type)
      .order_streams({device, stream.native()}, {device, reinterpret_cast<void*>(caller)});
}

}  // namespace hugectr
