// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/device/device_backend.hpp"

namespace hugectr::cuda {

/// The backend of CUDA devices; lives as long as the program and is registered when the plug-in is
/// opened. Nothing touches the driver before its first use.
DeviceBackend& cuda_backend();

}  // namespace hugectr::cuda
