// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>

#include "core/cpp/device/op.hpp"
#include "core/cuda/device/cublas_lt_api.hpp"
#include "core/cuda/device/status.hpp"

namespace hugectr::cuda {

/// The library's functions; opens it at the first call (see shared_library.hpp for where from).
/// Throws DeviceError with the places looked at and the way out.
const CublasLtApi& cublas_lt_api();
/// "13.0.2 (path)". Throws as cublas_lt_api() does.
std::string cublas_lt_version();

/// Throws DeviceError with the call, its place and the library's own text.
void check_status(cublasStatus_t status, const char* call, const char* file, int line);
void report_status(cublasStatus_t status, const char* call, const char* file, int line) noexcept;

/// A handle and its workspace. Every CUDA stream has one of its own: two matmuls that run at the
/// same time must not share a workspace. The functions are members:
///   auto& lt = cublas_lt(context);
///   HCTR_TRY(lt.matmul(lt.handle(), ..., lt.workspace(), lt.workspace_bytes(), stream));
class CublasLt : public CublasLtApi {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  /// For the device that is current.
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  cublasLtHandle_t handle() const { return handle_; }
  /// Device memory, aligned to 256 bytes.
  void* workspace() const { return workspace_; }
  std::size_t workspace_bytes() const { return kWorkspaceBytes; }

 private:
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
};

/// The handle and workspace of the context's stream, made at the first call. Call it once outside
/// a graph capture before capturing: making one allocates.
CublasLt& cublas_lt(const OpContext& context);

}  // namespace hugectr::cuda
