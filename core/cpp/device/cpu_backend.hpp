// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/device/device_backend.hpp"

namespace hugectr {

/// The backend of virtual CPU devices; lives as long as the program.
DeviceBackend& cpu_backend();

}  // namespace hugectr
