// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/driver/device_guard.hpp"

#include "core/cuda/driver/status.hpp"

namespace hugectr::cuda {

DeviceGuard::DeviceGuard(int device) : former_(device), changed_(false) {
  HCTR_TRY(cudaGetDevice(&former_));
  if (former_ != device) {
    HCTR_TRY(cudaSetDevice(device));
    changed_ = true;
  }
}

DeviceGuard::~DeviceGuard() {
  if (changed_) HCTR_TRY_NOTHROW(cudaSetDevice(former_));
}

}  // namespace hugectr::cuda
