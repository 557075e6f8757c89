// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/export.hpp"

namespace hugectr {

/// Takes so many bytes of a device's memory, or of host memory that it reaches, and keeps them for
/// the rest of the process: for one that is started to find out whether they are there, and ends
/// then. Memory of the host is written to, since a system promises more than it has. Throws
/// OutOfMemory, and DeviceError as DeviceBackend::get().
HCTR_API void hold_memory(DeviceId device, bool on_host, std::size_t bytes);

}  // namespace hugectr
