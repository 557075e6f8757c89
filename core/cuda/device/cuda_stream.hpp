// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/cpp/device/stream.hpp"
#include "core/cuda/device/stream_failure.hpp"
#include "core/cuda/memory/scratch_arena.hpp"

namespace hugectr::cuda {

class CublasLt;
class SideStreams;

/// Stream on a cudaStream_t that does not wait for the legacy default stream. Tasks run at once in
/// the calling thread, with the stream's device current. The destructor waits for the work.
class CudaStream final : public Stream {
 public:
  CudaStream(DeviceId device, const std::string& name, StreamPriority priority);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  DeviceId device() const override { return device_; }
  void submit(std::function<void()> task) override;
  /// From or to pageable host memory the call itself waits; pinned memory must stay until the copy
  /// is done.
  void copy(void* dst, const void* src, std::size_t bytes) override;
  void copy_scalars(void* dst, const void* src, std::size_t bytes) override;
  void fill_zero(void* dst, std::size_t bytes) override;
  /// Into a CUDA graph, in the capture mode of the calling thread alone: other threads go on as
  /// they like. nullptr with HUGECTR_SYNC=1, where every launch is waited for.
  std::unique_ptr<CapturedWork> capture(const std::function<void()>& submit) override;
  std::unique_ptr<TimeMark> create_time_mark() override;
  void stamp(TimeMark& mark) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  /// Throws DeviceError for an error of the GPU, CommError when a watched group has failed.
  void synchronize() override;
  bool has_failed() const override;
  void* native() override { return stream_; }

  /// The handle and workspace of this stream's matrix products.
  CublasLt& cublas_lt();
  /// Memory for the inside of this stream's ops.
  ScratchArena& scratch() { return scratch_; }
  /// Streams beside this one, of its priority.
  SideStreams& sides();
  /// The next synchronize() throws CommError if the group has failed by then.
  void watch(std::shared_ptr<const StreamFailure> failure);

 private:
  DeviceId device_;
  std::string name_;
  StreamPriority priority_;
  cudaStream_t stream_ = nullptr;
  mutable std::mutex mutex_;
  ScratchArena scratch_;
  std::unique_ptr<CublasLt> cublas_lt_;
  std::vector<std::shared_ptr<const StreamFailure>> watched_;
  std::unique_ptr<SideStreams> sides_;
};

/// Throws InvalidArgument for a stream of another kind of device.
CudaStream& cuda_stream(Stream& stream);

}  // namespace hugectr::cuda
