// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hugectr::cuda {

/// Makes a device the calling thread's current one and gives the former back.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int former_;
  bool changed_;
};

}  // namespace hugectr::cuda
