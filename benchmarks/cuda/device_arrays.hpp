// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "core/cpp/device/stream.hpp"
#include "core/cpp/memory/memory_resource.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr::bench {

inline void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::printf("{\"error\": \"%s\"}\n", cudaGetErrorString(status));
  std::exit(1);
}

inline cudaStream_t native(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

/// Elements at .. at + n - 1 of an array.
inline TensorRef piece(TensorRef ref, std::size_t at, std::size_t n) {
  ref.data = static_cast<char*>(ref.data) + at * size_of(ref.dtype);
  ref.shape = {n};
  ref.row_stride = 1;
  return ref;
}

/// Arrays on a device that go all at once.
class DeviceArrays {
 public:
  explicit DeviceArrays(std::shared_ptr<MemoryResource> memory) : memory_(std::move(memory)) {}
  ~DeviceArrays() { free_all(); }
  DeviceArrays(const DeviceArrays&) = delete;
  DeviceArrays& operator=(const DeviceArrays&) = delete;

  TensorRef operator()(TensorScalarType type, const Shape& shape) {
    TensorRef ref;
    ref.dtype = type;
    ref.device = memory_->device();
    ref.shape = shape;
    ref.row_stride = ref.row_size();
    ref.data = memory_->allocate(ref.size_in_bytes(), "bench");
    held_.emplace_back(ref.data, ref.size_in_bytes());
    return ref;
  }
  /// Nothing may use them any more.
  void free_all() {
    for (const auto& [data, bytes] : held_) memory_->deallocate(data, bytes);
    held_.clear();
  }

 private:
  std::shared_ptr<MemoryResource> memory_;
  std::vector<std::pair<void*, std::size_t>> held_;
};

/// Milliseconds of the GPU between two points of a stream.
class StreamClock {
 public:
  StreamClock() {
    check(cudaEventCreate(&begin_));
    check(cudaEventCreate(&end_));
  }
  ~StreamClock() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  StreamClock(const StreamClock&) = delete;
  StreamClock& operator=(const StreamClock&) = delete;

  template <class Body>
  double operator()(Stream& stream, const Body& body) {
    check(cudaEventRecord(begin_, native(stream)));
    body();
    check(cudaEventRecord(end_, native(stream)));
    check(cudaEventSynchronize(end_));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_));
    return ms;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace hugectr::bench
