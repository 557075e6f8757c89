// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/cuda_stream.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cuda/device/copy_scalars.hpp"
#include "core/cuda/device/cublas_lt.hpp"
#include "core/cuda/device/cuda_event.hpp"
#include "core/cuda/device/cuda_graph.hpp"
#include "core/cuda/device/cuda_time_mark.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/device/side_streams.hpp"
#include "core/cuda/driver/device_guard.hpp"
#include "core/cuda/driver/status.hpp"

namespace hugectr::cuda {

CudaStream::CudaStream(DeviceId device, const std::string& name, StreamPriority priority)
    : device_(device), name_(name), priority_(priority), scratch_(device.index) {
  const DeviceGuard guard(device_.index);
  int lowest = 0, highest = 0;
  HCTR_TRY(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  HCTR_TRY(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                        priority == StreamPriority::High ? highest : lowest));
}

CudaStream::~CudaStream() {
  sides_.reset();
  // Memory that queued work uses may go right after its stream.
  HCTR_TRY_NOTHROW(cudaStreamSynchronize(stream_));
  cublas_lt_.reset();
  HCTR_TRY_NOTHROW(cudaStreamDestroy(stream_));
}

SideStreams& CudaStream::sides() {
  if (!sides_) sides_ = std::make_unique<SideStreams>(device_, priority_);
  return *sides_;
}

void CudaStream::submit(std::function<void()> task) {
  const DeviceGuard guard(device_.index);
  task();
}

void CudaStream::copy(void* dst, const void* src, std::size_t bytes) {
  if (bytes == 0 || dst == src) return;
  const DeviceGuard guard(device_.index);
  HCTR_TRY(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream_));
}

void CudaStream::copy_scalars(void* dst, const void* src, std::size_t bytes) {
  HCTR_CHECK(bytes <= kMaxScalarBytes, "copy_scalars takes at most ", kMaxScalarBytes,
             " bytes, got ", bytes, ": use copy() for more");
  if (bytes == 0) return;
  const DeviceGuard guard(device_.index);
  cuda::copy_scalars({.stream = this, .device = device_}, dst, src, bytes);
}

void CudaStream::fill_zero(void* dst, std::size_t bytes) {
  if (bytes == 0) return;
  const DeviceGuard guard(device_.index);
  HCTR_TRY(cudaMemsetAsync(dst, 0, bytes, stream_));
}

std::unique_ptr<CapturedWork> CudaStream::capture(const std::function<void()>& submit) {
  if (sync_every_launch()) return nullptr;
  const DeviceGuard guard(device_.index);
  return capture_graph(stream_, device_.index, submit);
}

std::unique_ptr<TimeMark> CudaStream::create_time_mark() {
  return std::make_unique<CudaTimeMark>(device_.index);
}

void CudaStream::stamp(TimeMark& mark) {
  const DeviceGuard guard(device_.index);
  cuda_time_mark(mark).stamp(stream_);
}

void CudaStream::record(Event& event) {
  const DeviceGuard guard(device_.index);
  HCTR_TRY(cudaEventRecord(cuda_event(event).native(), stream_));
}

void CudaStream::wait(Event& event) {
  const DeviceGuard guard(device_.index);
  HCTR_TRY(cudaStreamWaitEvent(stream_, cuda_event(event).native(), 0));
}

void CudaStream::synchronize() {
  const cudaError_t status = cudaStreamSynchronize(stream_);
  std::vector<std::shared_ptr<const StreamFailure>> watched;
  {
    const std::lock_guard lock(mutex_);
    watched.swap(watched_);
  }
  check_status(status, concat("the work of stream '", name_, "' of ", to_string(device_)).c_str(),
               __FILE__, __LINE__);
  for (const auto& failure : watched) {
    if (failure->failed()) throw CommError(failure->text());
  }
}

bool CudaStream::has_failed() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(watched_.begin(), watched_.end(),
                     [](const auto& failure) { return failure->failed(); });
}

CublasLt& CudaStream::cublas_lt() {
  const std::lock_guard lock(mutex_);
  if (!cublas_lt_) {
    const DeviceGuard guard(device_.index);
    cublas_lt_ = std::make_unique<CublasLt>(device_.index, stream_);
  }
  return *cublas_lt_;
}

void CudaStream::watch(std::shared_ptr<const StreamFailure> failure) {
  const std::lock_guard lock(mutex_);
  if (std::find(watched_.begin(), watched_.end(), failure) == watched_.end()) {
    watched_.push_back(std::move(failure));
  }
}

CudaStream& cuda_stream(Stream& stream) {
  auto* const result = dynamic_cast<CudaStream*>(&stream);
  HCTR_CHECK(result != nullptr, "a CUDA kernel was given a stream of ", to_string(stream.device()),
             ": take the context from a GPUResource");
  return *result;
}

}  // namespace hugectr::cuda
