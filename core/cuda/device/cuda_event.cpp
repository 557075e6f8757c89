// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/cuda_event.hpp"

#include "core/cpp/base/error.hpp"
#include "core/cuda/driver/device_guard.hpp"
#include "core/cuda/driver/status.hpp"

namespace hugectr::cuda {

CudaEvent::CudaEvent(int device) {
  const DeviceGuard guard(device);
  HCTR_TRY(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
}

CudaEvent::~CudaEvent() { HCTR_TRY_NOTHROW(cudaEventDestroy(event_)); }

void CudaEvent::synchronize() { HCTR_TRY(cudaEventSynchronize(event_)); }

CudaEvent& cuda_event(Event& event) {
  auto* const result = dynamic_cast<CudaEvent*>(&event);
  HCTR_CHECK(result != nullptr, "a CUDA stream takes events of CUDA devices only");
  return *result;
}

}  // namespace hugectr::cuda
