// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/driver/status.hpp"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "core/cpp/base/error.hpp"
#include "core/cuda/driver/driver.hpp"

namespace hugectr::cuda {
namespace {

std::string place(const char* file, int line) {
  return concat(std::filesystem::path(file).filename().string(), ":", line);
}

/// Errors after which the context is lost: every later call of this process returns the same.
bool is_fatal(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

std::string text_of(cudaError_t status, const char* call, const char* file, int line) {
  std::string text = concat(call, " failed at ", place(file, line), ": ", cudaGetErrorName(status),
                            ": ", cudaGetErrorString(status));
  if (is_fatal(status)) {
    text +=
        "; the GPU context of this process is lost: start it again, with HUGECTR_SYNC=1 to learn "
        "which kernel it was";
  }
  return text;
}

std::string text_of(CUresult status, const char* call, const char* file, int line) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver().get_error_name(status, &name);
  driver().get_error_string(status, &text);
  return concat(call, " failed at ", place(file, line), ": ",
                name != nullptr ? name : "unknown driver error", ": ",
                text != nullptr ? text : std::to_string(static_cast<int>(status)));
}

}  // namespace

void check_status(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // else the next launch check would report this error again
  const std::string text = text_of(status, call, file, line);
  if (status == cudaErrorMemoryAllocation) {
    throw OutOfMemory(concat(text, "; use a smaller batch, table budget or vector size"));
  }
  throw DeviceError(text);
}

void check_status(CUresult status, const char* call, const char* file, int line) {
  if (status == CUDA_SUCCESS) return;
  const std::string text = text_of(status, call, file, line);
  if (status == CUDA_ERROR_OUT_OF_MEMORY) {
    throw OutOfMemory(concat(text, "; use a smaller batch, table budget or vector size"));
  }
  throw DeviceError(text);
}

void report_status(cudaError_t status, const char* call, const char* file, int line) noexcept {
  // The driver goes before the last static objects do: nothing is lost then.
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  try {
    cudaGetLastError();
    std::fprintf(stderr, "hugectr: %s\n", text_of(status, call, file, line).c_str());
  } catch (...) {
    std::fprintf(stderr, "hugectr: %s failed\n", call);
  }
}

void report_status(CUresult status, const char* call, const char* file, int line) noexcept {
  if (status == CUDA_SUCCESS || status == CUDA_ERROR_DEINITIALIZED) return;
  try {
    std::fprintf(stderr, "hugectr: %s\n", text_of(status, call, file, line).c_str());
  } catch (...) {
    std::fprintf(stderr, "hugectr: %s failed\n", call);
  }
}

}  // namespace hugectr::cuda
