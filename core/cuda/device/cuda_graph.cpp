// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/cuda_graph.hpp"

#include <exception>

#include "core/cuda/driver/device_guard.hpp"
#include "core/cuda/driver/status.hpp"

namespace hugectr::cuda {
namespace {

class CudaGraph final : public CapturedWork {
 public:
  CudaGraph(cudaGraph_t graph, cudaStream_t stream, int device) : stream_(stream), device_(device) {
    HCTR_TRY(cudaGraphInstantiate(&exec_, graph, 0));
  }
  ~CudaGraph() override { HCTR_TRY_NOTHROW(cudaGraphExecDestroy(exec_)); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void replay() override {
    const DeviceGuard guard(device_);
    HCTR_TRY(cudaGraphLaunch(exec_, stream_));
  }

 private:
  cudaGraphExec_t exec_ = nullptr;
  cudaStream_t stream_;
  int device_;
};

/// Owns the graph between its capture and its instantiation.
struct Graph {
  ~Graph() {
    if (graph) HCTR_TRY_NOTHROW(cudaGraphDestroy(graph));
  }
  cudaGraph_t graph = nullptr;
};

}  // namespace

std::unique_ptr<CapturedWork> capture_graph(cudaStream_t stream, int device,
                                            const std::function<void()>& submit) {
  Graph captured;
  // Thread-local: the other threads allocate, copy and wait as they like meanwhile.
  HCTR_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  std::exception_ptr error;
  try {
    submit();
  } catch (...) {
    error = std::current_exception();
  }
  // The capture ends in any case: a stream left in it could do no work any more.
  const cudaError_t status = cudaStreamEndCapture(stream, &captured.graph);
  if (error) {
    cudaGetLastError();
    std::rethrow_exception(error);
  }
  check_status(status, "cudaStreamEndCapture", __FILE__, __LINE__);
  return std::make_unique<CudaGraph>(captured.graph, stream, device);
}

}  // namespace hugectr::cuda
