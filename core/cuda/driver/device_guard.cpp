// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/driver/device_guard.hpp"

#include "core/cuda/driver/status.hpp"

namespace hugectr::cuda {
namespace {

constexpr int kNoGuard = -1;
/// The device of the innermost guard of this thread.
thread_local int guarded = kNoGuard;

}  // namespace

int current_device() {
  if (guarded != kNoGuard) return guarded;
  int device = 0;
  HCTR_TRY(cudaGetDevice(&device));
  return device;
}

DeviceGuard::DeviceGuard(int device)
    : outer_(guarded), former_(current_device()), changed_(former_ != device) {
  if (changed_) HCTR_TRY(cudaSetDevice(device));
  guarded = device;
}

DeviceGuard::~DeviceGuard() {
  guarded = outer_;
  if (changed_) HCTR_TRY_NOTHROW(cudaSetDevice(former_));
}

}  // namespace hugectr::cuda
