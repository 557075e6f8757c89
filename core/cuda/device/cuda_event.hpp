// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include "core/cpp/device/stream.hpp"

namespace hugectr::cuda {

/// Event on a cudaEvent_t without timing.
class CudaEvent final : public Event {
 public:
  explicit CudaEvent(int device);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void synchronize() override;
  cudaEvent_t native() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Throws InvalidArgument for an event of another kind of device.
CudaEvent& cuda_event(Event& event);

}  // namespace hugectr::cuda
