// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/memory/memory_resource.hpp"
#include "core/cuda/device/cublas_lt_api.hpp"
#include "core/cuda/driver/status.hpp"

namespace hugectr::cuda {

/// The library's functions; opens it at the first call (see shared_library.hpp for where from).
/// Throws DeviceError with the places looked at and the way out.
const CublasLtApi& cublas_lt_api();
/// "13.0.2 (path)". Throws as cublas_lt_api() does.
std::string cublas_lt_version();

/// Throws DeviceError with the call, its place and the library's own text.
void check_status(cublasStatus_t status, const char* call, const char* file, int line);
void report_status(cublasStatus_t status, const char* call, const char* file, int line) noexcept;

/// A handle and its workspace, which other work of the same stream may use between two matmuls.
/// Every CUDA stream has one of its own: two matmuls that run at the same time must not share a
/// workspace. Memory is of the device's pool: it may be made while collectives are under way, where
/// cudaMalloc and cudaFree can wait for other devices. The functions are members:
///   auto& lt = cublas_lt(context);
///   HCTR_TRY(lt.matmul(lt.handle(), ..., lt.workspace(), lt.workspace_bytes(), stream));
class CublasLt : public CublasLtApi {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  /// For the device that is current, which `device` names, and a stream of it.
  CublasLt(int device, CUstream_st* stream);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  cublasLtHandle_t handle() const { return handle_; }
  /// Device memory, aligned to 256 bytes.
  void* workspace() const { return workspace_; }
  std::size_t workspace_bytes() const { return kWorkspaceBytes; }
  static constexpr std::size_t kCounterBytes = 256;
  /// So many bytes of device memory, zeros whenever no kernel of this stream runs: who counts in
  /// them leaves zeros.
  void* counters() const { return static_cast<char*>(workspace_) + kWorkspaceBytes; }

  /// Device memory for aligned copies of operands, for work of this stream alone. It grows to what
  /// is asked for; memory handed out before stays until the object goes, because a captured graph
  /// may use it. Throws OutOfMemory, and DeviceError when it would have to grow during a capture of
  /// `stream`.
  void* operand_memory(std::size_t bytes, CUstream_st* stream);

 private:
  cublasLtHandle_t handle_ = nullptr;
  std::shared_ptr<MemoryResource> memory_;
  void* workspace_ = nullptr;
  std::vector<std::pair<void*, std::size_t>> operand_memory_;
  std::size_t operand_bytes_ = 0;
};

/// The handle and workspace of the context's stream, made at the first call. Call it once outside
/// a graph capture before capturing: making one allocates.
CublasLt& cublas_lt(const OpContext& context);

}  // namespace hugectr::cuda
