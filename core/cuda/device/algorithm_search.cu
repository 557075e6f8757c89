// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string_view>

#include "core/cuda/device/algorithm_search.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/memory/memory_pool.hpp"

namespace hugectr::cuda {
namespace {

constexpr int kTimedRuns = 5;
constexpr float kNoise = 0.98f;  // less of the first one's time than this is faster
constexpr unsigned kCompareThreads = 256;

// Two results and a flag, in the order of the stream; no data when the device has no memory for
// them. Never cudaFree: it waits for all work of the device with the driver's lock held, and a
// collective there may wait for a device whose thread wants that lock.
class Results {
 public:
  Results(std::size_t bytes, int device, cudaStream_t stream)
      : stream_(stream), bytes_((bytes + 255) / 256 * 256) {
    if (cudaMallocFromPoolAsync(&memory_, 2 * bytes_ + sizeof(unsigned), memory_pool(device),
                                stream) != cudaSuccess) {
      memory_ = nullptr;
      static_cast<void>(cudaGetLastError());  // no error of the step's
    }
  }
  ~Results() {
    if (memory_ != nullptr) HCTR_TRY_NOTHROW(cudaFreeAsync(memory_, stream_));
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  explicit operator bool() const { return memory_ != nullptr; }
  char* result(std::size_t i) const { return static_cast<char*>(memory_) + i * bytes_; }
  unsigned* flag() const { return reinterpret_cast<unsigned*>(result(2)); }
  std::size_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  cudaStream_t stream_;
  std::size_t bytes_;
};

class Timer {
 public:
  Timer() {
    HCTR_TRY(cudaEventCreate(&begin_));
    HCTR_TRY(cudaEventCreate(&end_));
  }
  ~Timer() {
    HCTR_TRY_NOTHROW(cudaEventDestroy(begin_));
    HCTR_TRY_NOTHROW(cudaEventDestroy(end_));
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  template <class F>
  float milliseconds(cudaStream_t stream, const F& work) {
    HCTR_TRY(cudaEventRecord(begin_, stream));
    for (int i = 0; i < kTimedRuns; ++i) work();
    HCTR_TRY(cudaEventRecord(end_, stream));
    HCTR_TRY(cudaEventSynchronize(end_));
    float result = 0.0f;
    HCTR_TRY(cudaEventElapsedTime(&result, begin_, end_));
    return result;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

__global__ void compare_kernel(const uint4* a, const uint4* b, std::size_t count, unsigned* flag) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const uint4 x = a[i], y = b[i];
    if (x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w) *flag = 1;
  }
}

bool same_bits(const OpContext& context, const Results& results) {
  const cudaStream_t stream = native_stream(context);
  HCTR_TRY(cudaMemsetAsync(results.flag(), 0, sizeof(unsigned), stream));
  const std::size_t count = results.bytes() / sizeof(uint4);
  launch(context, "compare results", dim3(grid_for(count, kCompareThreads)), dim3(kCompareThreads),
         0, &compare_kernel, reinterpret_cast<const uint4*>(results.result(0)),
         reinterpret_cast<const uint4*>(results.result(1)), count, results.flag());
  unsigned flag = 0;
  HCTR_TRY(cudaMemcpyAsync(&flag, results.flag(), sizeof(flag), cudaMemcpyDefault, stream));
  HCTR_TRY(cudaStreamSynchronize(stream));
  return flag == 0;
}

}  // namespace

bool may_search(const OpContext& context) {
  const char* const value = std::getenv("HUGECTR_GEMM_ALGORITHMS");
  if (value != nullptr && std::string_view(value) == "first") return false;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  HCTR_TRY(cudaStreamIsCapturing(native_stream(context), &capture));
  return capture == cudaStreamCaptureStatusNone;
}

std::size_t fastest_candidate(const OpContext& context, std::size_t candidates, std::size_t bytes,
                              const std::function<bool(std::size_t, void*)>& run) {
  if (candidates < 2) return 0;
  const cudaStream_t stream = native_stream(context);
  const Results results(bytes, context.device.index, stream);
  if (!results) return 0;
  // What lies between strided rows is equal too.
  HCTR_TRY(cudaMemsetAsync(results.result(0), 0, 2 * results.bytes(), stream));
  if (!run(0, results.result(0))) return 0;
  Timer timer;
  const auto time = [&](std::size_t candidate) {
    return timer.milliseconds(stream, [&] { run(candidate, results.result(1)); });
  };
  run(0, results.result(1));
  float best = kNoise * time(0);
  std::size_t fastest = 0;
  for (std::size_t candidate = 1; candidate < candidates; ++candidate) {
    if (!run(candidate, results.result(1)) || !same_bits(context, results)) continue;
    const float found = time(candidate);
    if (found >= best) continue;
    best = found;
    fastest = candidate;
  }
  return fastest;
}

}  // namespace hugectr::cuda
