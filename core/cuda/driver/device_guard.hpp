// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hugectr::cuda {

/// Makes a device the calling thread's current one and gives the former back. Inside of another
/// guard of the thread it asks the driver nothing: nobody else in here changes the device.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int outer_;  ///< of the guard around this one, or none
  int former_;
  bool changed_;
};

/// The calling thread's current device; of a thread inside a DeviceGuard without a question to the
/// driver, which kernels of many tables would ask some hundred times a step.
int current_device();

}  // namespace hugectr::cuda
