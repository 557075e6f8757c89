// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/cuda/comm/nccl_api.hpp"
#include "core/cuda/driver/status.hpp"

namespace hugectr::cuda {

/// The library's functions; opens it at the first call (see shared_library.hpp for where from).
/// Throws DeviceError with the places looked at and the way out.
const NcclApi& nccl();
/// "2.27.3 (path)". Throws as nccl() does.
std::string nccl_version();

/// Throws CommError with the call, its place and the library's own text.
void check_status(ncclResult_t status, const char* call, const char* file, int line);
void report_status(ncclResult_t status, const char* call, const char* file, int line) noexcept;

}  // namespace hugectr::cuda
