// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/device/op.hpp"

namespace hugectr::cuda {

constexpr std::size_t kMaxScalarBytes = 256;

/// Writes `bytes` (1 to kMaxScalarBytes) from the host to device memory. They travel as a kernel
/// parameter, so the host memory may change as soon as the call returns.
void copy_scalars(const OpContext& context, void* dst, const void* src, std::size_t bytes);

/// Throws DeviceError when this build holds no code for the current device.
void check_code_for_current_device();

}  // namespace hugectr::cuda
