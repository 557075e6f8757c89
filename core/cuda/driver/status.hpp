// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

namespace hugectr::cuda {

/// Throws OutOfMemory or DeviceError with the call, its place and the library's own text; clears
/// the sticky error first, so that the process stays usable where CUDA allows it.
void check_status(cudaError_t status, const char* call, const char* file, int line);
void check_status(CUresult status, const char* call, const char* file, int line);
/// The same as one line on standard error; for destructors.
void report_status(cudaError_t status, const char* call, const char* file, int line) noexcept;
void report_status(CUresult status, const char* call, const char* file, int line) noexcept;

}  // namespace hugectr::cuda

/// Runs a call of a CUDA library and throws when it fails. Other libraries add overloads of
/// check_status beside their headers (cuBLASLt in core/cuda/device/cublas_lt.hpp, NCCL in
/// core/cuda/comm/nccl.hpp).
#define HCTR_TRY(call) ::hugectr::cuda::check_status((call), #call, __FILE__, __LINE__)

/// The same where nothing may be thrown.
#define HCTR_TRY_NOTHROW(call) ::hugectr::cuda::report_status((call), #call, __FILE__, __LINE__)
