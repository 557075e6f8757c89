// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include "core/cpp/device/stream.hpp"

namespace hugectr::cuda {

/// TimeMark on a cudaEvent_t with timing.
class CudaTimeMark final : public TimeMark {
 public:
  explicit CudaTimeMark(int device);
  ~CudaTimeMark() override;
  CudaTimeMark(const CudaTimeMark&) = delete;
  CudaTimeMark& operator=(const CudaTimeMark&) = delete;

  double seconds_since(TimeMark& earlier) override;
  void stamp(cudaStream_t stream);

 private:
  cudaEvent_t event_ = nullptr;
};

/// Throws InvalidArgument for a mark of another kind of device.
CudaTimeMark& cuda_time_mark(TimeMark& mark);

}  // namespace hugectr::cuda
