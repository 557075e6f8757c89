// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/cublas_lt.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "core/cpp/base/error.hpp"
#include "core/cuda/device/cuda_stream.hpp"
#include "core/cuda/driver/shared_library.hpp"
#include "core/cuda/memory/cuda_memory_resource.hpp"

namespace hugectr::cuda {
namespace {

struct Library {
  SharedLibrary file{"libcublasLt.so.13", "cu13 cublas", "\"nvidia-cublas>=13,<14\""};
  CublasLtApi api{};

  Library() {
    file.find(api.create, "cublasLtCreate");
    file.find(api.destroy, "cublasLtDestroy");
    file.find(api.getStatusName, "cublasLtGetStatusName");
    file.find(api.getStatusString, "cublasLtGetStatusString");
    file.find(api.getVersion, "cublasLtGetVersion");
    file.find(api.matmul, "cublasLtMatmul");
    file.find(api.matmulDescCreate, "cublasLtMatmulDescCreate");
    file.find(api.matmulDescDestroy, "cublasLtMatmulDescDestroy");
    file.find(api.matmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
    file.find(api.matrixLayoutCreate, "cublasLtMatrixLayoutCreate");
    file.find(api.matrixLayoutDestroy, "cublasLtMatrixLayoutDestroy");
    file.find(api.matrixLayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute");
    file.find(api.matmulPreferenceCreate, "cublasLtMatmulPreferenceCreate");
    file.find(api.matmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy");
    file.find(api.matmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
    file.find(api.matmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
    file.find(api.matmulAlgoConfigGetAttribute, "cublasLtMatmulAlgoConfigGetAttribute");
  }
};

const Library& library() {
  static const auto* const object = new Library;  // static destructors may still multiply
  return *object;
}

std::string text_of(cublasStatus_t status, const char* call, const char* file, int line) {
  const CublasLtApi& api = cublas_lt_api();
  return concat(call, " failed at ", file, ":", line, ": ", api.getStatusName(status), ": ",
                api.getStatusString(status));
}

}  // namespace

const CublasLtApi& cublas_lt_api() { return library().api; }

std::string cublas_lt_version() {
  const std::size_t version = library().api.getVersion();  // 130002 is 13.0.2
  return concat(version / 10000, ".", version / 100 % 100, ".", version % 100, " (",
                library().file.path(), ")");
}

void check_status(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status != CUBLAS_STATUS_SUCCESS) throw DeviceError(text_of(status, call, file, line));
}

void report_status(cublasStatus_t status, const char* call, const char* file, int line) noexcept {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  try {
    std::fprintf(stderr, "hugectr: %s\n", text_of(status, call, file, line).c_str());
  } catch (...) {
    std::fprintf(stderr, "hugectr: %s failed\n", call);
  }
}

CublasLt::CublasLt(int device, CUstream_st* stream)
    : CublasLtApi(cublas_lt_api()), memory_(make_cuda_memory_resource(device)) {
  HCTR_TRY(create(&handle_));
  try {
    workspace_ = memory_->allocate(kWorkspaceBytes + kCounterBytes, "workspace of matrix products");
    HCTR_TRY(cudaMemsetAsync(counters(), 0, kCounterBytes, stream));
  } catch (...) {
    if (workspace_ != nullptr) memory_->deallocate(workspace_, kWorkspaceBytes + kCounterBytes);
    HCTR_TRY_NOTHROW(destroy(handle_));
    throw;
  }
}

CublasLt::~CublasLt() {
  for (const auto& [operands, bytes] : operand_memory_) memory_->deallocate(operands, bytes);
  memory_->deallocate(workspace_, kWorkspaceBytes + kCounterBytes);
  HCTR_TRY_NOTHROW(destroy(handle_));
}

void* CublasLt::operand_memory(std::size_t bytes, CUstream_st* stream) {
  if (bytes > operand_bytes_) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    HCTR_TRY(cudaStreamIsCapturing(stream, &capture));
    if (capture != cudaStreamCaptureStatusNone) {
      throw DeviceError(
          concat("a matrix product needs ", bytes,
                 " bytes for aligned copies of its operands, and none can be allocated while a "
                 "graph is captured: run the records once before capturing them"));
    }
    constexpr std::size_t kLeast = std::size_t{4} << 20;
    const std::size_t wanted = std::max(kLeast, std::bit_ceil(bytes));
    void* const memory = memory_->allocate(wanted, "aligned operands of matrix products");
    operand_memory_.emplace_back(memory, wanted);
    operand_bytes_ = wanted;
  }
  return operand_memory_.empty() ? nullptr : operand_memory_.back().first;
}

CublasLt& cublas_lt(const OpContext& context) { return cuda_stream(*context.stream).cublas_lt(); }

}  // namespace hugectr::cuda
