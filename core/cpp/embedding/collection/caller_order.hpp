// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <exception>

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

/// In the scope of one: where an error leaves it, first waits for the stream, whose work reads and
/// writes memory that the caller gives back then.
class SettledOnError {
 public:
  explicit SettledOnError(Stream& stream) : stream_(stream) {}
  ~SettledOnError() {
    if (std::uncaught_exceptions() == before_) return;
    try {
      stream_.synchronize();
    } catch (...) {  // the error that is under way says more
      return;
    }
  }
  SettledOnError(const SettledOnError&) = delete;
  SettledOnError& operator=(const SettledOnError&) = delete;

 private:
  Stream& stream_;
  int before_ = std::uncaught_exceptions();
};

}  // namespace hugectr
