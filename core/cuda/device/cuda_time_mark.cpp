// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/cuda_time_mark.hpp"

#include "core/cpp/base/error.hpp"
#include "core/cuda/driver/device_guard.hpp"
#include "core/cuda/driver/status.hpp"

namespace hugectr::cuda {

CudaTimeMark::CudaTimeMark(int device) {
  const DeviceGuard guard(device);
  HCTR_TRY(cudaEventCreate(&event_));
}

CudaTimeMark::~CudaTimeMark() { HCTR_TRY_NOTHROW(cudaEventDestroy(event_)); }

double CudaTimeMark::seconds_since(TimeMark& earlier) {
  CudaTimeMark& before = cuda_time_mark(earlier);
  HCTR_TRY(cudaEventSynchronize(before.event_));
  HCTR_TRY(cudaEventSynchronize(event_));
  float milliseconds = 0.0f;
  HCTR_TRY(cudaEventElapsedTime(&milliseconds, before.event_, event_));
  return milliseconds * 1e-3;
}

void CudaTimeMark::stamp(cudaStream_t stream) { HCTR_TRY(cudaEventRecord(event_, stream)); }

CudaTimeMark& cuda_time_mark(TimeMark& mark) {
  auto* const result = dynamic_cast<CudaTimeMark*>(&mark);
  HCTR_CHECK(result != nullptr, "a CUDA stream stamps time marks of CUDA devices only");
  return *result;
}

}  // namespace hugectr::cuda
