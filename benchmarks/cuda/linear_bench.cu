// SPDX-License-Identifier: Apache-2.0
// Time of LinearFwd and LinearBwd on one GPU at the sizes of DLRM and DCN.
//
//   linear_bench [batch: 65536] [dtype: bf16 | fp16 | tf32 | fp32] [search: 0 | 1]
//
// Prints a JSON line a layer. Runs are captured into a CUDA graph, so that nothing of the host is
// timed, over sets of random tensors that together are larger than the L2 cache. Backward is what a
// step has: dx is masked by the relu below and summed for its bias. `floor_us` is the larger of
// bytes / measured copy bandwidth and flops / measured rate of a large product.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/gemm.hpp"
#include "core/cpp/ops/linear.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

using namespace hugectr;  // NOLINT

namespace {

constexpr std::size_t kLargerThanL2 = std::size_t{200} << 20;
constexpr int kRuns = 24, kRepeats = 7;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

// Numbers between -0.5 and 0.5; `relu` puts half of them to 0.
__global__ void fill(void* data, std::size_t n, int bytes, bool bf16, unsigned seed, bool relu) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    std::uint64_t z = (i + 1) * 0x9E3779B97F4A7C15ull + seed * 0xD1B54A32D192ED03ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    float value = static_cast<float>(z >> 40) / static_cast<float>(1 << 24) - 0.5f;
    if (relu && value < 0.0f) value = 0.0f;
    if (bytes == 4) {
      static_cast<float*>(data)[i] = value;
    } else if (bf16) {
      static_cast<std::uint16_t*>(data)[i] =
          static_cast<std::uint16_t>(__float_as_uint(value) >> 16);
    } else {  // sign, exponent and 10 bits of mantissa; small numbers become 0
      const unsigned bits = __float_as_uint(value);
      const int exponent = static_cast<int>(bits >> 23 & 0xFF) - 112;
      static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(
          exponent <= 0 ? 0 : (bits >> 31 << 15) | (exponent << 10) | (bits >> 13 & 0x3FF));
    }
  }
}

class Bench {
 public:
  Bench(std::size_t batch, TensorScalarType dtype, bool tf32, bool search)
      : batch_(batch),
        dtype_(dtype),
        stream_(DeviceBackend::get(DeviceType::Cuda).create_stream(device_, "bench")),
        native_(static_cast<cudaStream_t>(stream_->native())) {
    context_ = {.stream = stream_.get(), .pool = &pool_, .device = device_, .tf32 = tf32};
    context_.search_algorithms = search;
  }

  TensorRef tensor(std::size_t rows, std::size_t columns, TensorScalarType dtype, bool relu = false,
                   std::size_t stride = 0) {
    TensorRef ref;
    ref.dtype = dtype;
    ref.device = device_;
    ref.shape = {rows, columns};
    ref.row_stride = stride == 0 ? columns : stride;
    const std::size_t n = rows * ref.row_stride, bytes = size_of(dtype);
    check(cudaMalloc(&ref.data, n * bytes + 256), "memory");
    memory_.push_back(ref.data);
    if (ref.row_stride != columns) {
      check(cudaMemsetAsync(ref.data, 0, n * bytes, native_), "memory");
    } else {
      fill<<<1056, 256, 0, native_>>>(ref.data, n, static_cast<int>(bytes),
                                      dtype == TensorScalarType::BFloat16, ++seed_, relu);
    }
    return ref;
  }

  void release() {
    check(cudaStreamSynchronize(native_), "work");
    for (void* memory : memory_) cudaFree(memory);
    memory_.clear();
  }

  // Median microseconds of work(set); sets 0 .. sets - 1 in turn.
  double time(std::size_t sets, const std::function<void(std::size_t)>& work) {
    for (std::size_t set = 0; set < sets; ++set) work(set);  // searches and allocates
    check(cudaStreamSynchronize(native_), "first runs");
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    check(cudaStreamBeginCapture(native_, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < kRuns; ++i) work(static_cast<std::size_t>(i) % sets);
    check(cudaStreamEndCapture(native_, &graph), "capture");
    check(cudaGraphInstantiate(&ready, graph, 0), "graph");
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    std::vector<float> times(kRepeats);
    check(cudaGraphLaunch(ready, native_), "graph");
    for (float& ms : times) {
      cudaEventRecord(begin, native_);
      check(cudaGraphLaunch(ready, native_), "graph");
      cudaEventRecord(end, native_);
      check(cudaEventSynchronize(end), "graph");
      cudaEventElapsedTime(&ms, begin, end);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    std::sort(times.begin(), times.end());
    return 1e3 * times[kRepeats / 2] / kRuns;
  }

  void ceilings() {
    const std::size_t bytes = std::size_t{1} << 30;
    const TensorRef from = tensor(bytes / 4, 1, TensorScalarType::Float32);
    const TensorRef to = tensor(bytes / 4, 1, TensorScalarType::Float32);
    copy_ = 2.0 * static_cast<double>(bytes) /
            time(1, [&](std::size_t) { stream_->copy(to.data, from.data, bytes); });
    release();
    const std::size_t n = 8192;
    const TensorRef a = tensor(n, n, dtype_), b = tensor(n, n, dtype_), c = tensor(n, n, dtype_);
    rate_ = 2.0 * static_cast<double>(n * n * n) /
            time(1, [&](std::size_t) { run(context_, Gemm{.a = a, .b = b, .c = c}); });
    release();
    std::printf("{\"copy_tb_s\": %.2f, \"product_tflop_s\": %.0f}\n", copy_ / 1e6, rate_ / 1e6);
  }

  // `first`: the layer has no relu below and needs no dx; `last`: no relu of its own.
  void layer(std::size_t n, std::size_t m, bool first, bool last) {
    const std::size_t element = size_of(dtype_);
    const std::size_t stride = element == 2 ? (n + 7) / 8 * 8 : n;
    const bool padded = stride != n;
    const std::size_t set_bytes = batch_ * (2 * stride + 2 * m) * element;
    const std::size_t sets = std::clamp<std::size_t>(kLargerThanL2 / set_bytes + 1, 2, 12);
    std::vector<LinearFwd> forward(sets);
    std::vector<LinearBwd> backward(sets);
    for (std::size_t i = 0; i < sets; ++i) {
      LinearFwd& f = forward[i];
      f.x = tensor(batch_, n, dtype_, !first, stride);
      f.w = tensor(n, m, dtype_);
      f.b = vector(m, dtype_);
      f.y = tensor(batch_, m, dtype_);
      f.activation = last ? Activation::Non : Activation::Relu;
      f.padded = padded;
      LinearBwd& b = backward[i];
      b.x = f.x;
      b.w = f.w;
      b.dy = tensor(batch_, m, dtype_);
      b.dw = tensor(n, m, TensorScalarType::Float32);
      b.overwrite = true;
      b.padded = padded;
      if (last) {  // the others' bias gradient comes from the product above
        b.db = vector(m, TensorScalarType::Float32);
        b.partial = tensor(partial_rows(batch_), m, TensorScalarType::Float32);
      }
      if (first) continue;
      b.dx = tensor(batch_, n, dtype_, false, stride);
      b.dx_padded = padded;
      b.below = Activation::Relu;
      b.overwrite_below = true;
      b.db_below = vector(n, TensorScalarType::Float32);
      b.partial_below = tensor(partial_rows(batch_), n, TensorScalarType::Float32);
    }
    const double fwd = time(sets, [&](std::size_t i) { run(context_, forward[i]); });
    const double bwd = time(sets, [&](std::size_t i) { run(context_, backward[i]); });
    const double flops = 2.0 * static_cast<double>(batch_ * n * m);
    const auto bytes = [&](std::size_t columns) {
      return static_cast<double>(batch_ * columns * element);
    };
    const double fwd_floor = std::max(flops / rate_, bytes(n + m) / copy_);
    // dw reads x and dy; dx reads dy and x and is written.
    const double bwd_floor = std::max(flops / rate_, bytes(n + m) / copy_) +
                             (first ? 0.0 : std::max(flops / rate_, bytes(2 * n + m) / copy_));
    std::printf(
        "{\"layer\": \"%zu->%zu\", \"fwd_us\": %.1f, \"fwd_floor_us\": %.1f, \"bwd_us\": %.1f, "
        "\"bwd_floor_us\": %.1f}\n",
        n, m, fwd, fwd_floor, bwd, bwd_floor);
    std::fflush(stdout);
    release();
  }

 private:
  TensorRef vector(std::size_t n, TensorScalarType dtype) {
    TensorRef ref = tensor(1, n, dtype);
    ref.shape = {n};
    ref.row_stride = 1;
    return ref;
  }

  const DeviceId device_{DeviceType::Cuda, 0};
  std::size_t batch_;
  TensorScalarType dtype_;
  ThreadPool pool_{1};
  std::unique_ptr<Stream> stream_;
  cudaStream_t native_;
  OpContext context_;
  std::vector<void*> memory_;
  unsigned seed_ = 0;
  double copy_ = 1.0, rate_ = 1.0;  // bytes and flops a microsecond
};

}  // namespace

int main(int argc, char** argv) {
  const std::size_t batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 65536;
  const std::string name = argc > 2 ? argv[2] : "bf16";
  const bool search = argc > 3 && argv[3][0] == '1';
  const TensorScalarType dtype = name == "bf16"   ? TensorScalarType::BFloat16
                                 : name == "fp16" ? TensorScalarType::Float16
                                                  : TensorScalarType::Float32;
  std::printf("{\"gpu\": \"%s\", \"batch\": %zu, \"dtype\": \"%s\", \"search\": %d}\n",
              DeviceBackend::get(DeviceType::Cuda).device_name(0).c_str(), batch, name.c_str(),
              search);
  Bench bench(batch, dtype, name == "tf32", search);
  bench.ceilings();
  struct Layer {
    std::size_t n, m;
    bool first, last;
  };
  for (const Layer& l : std::vector<Layer>{{13, 512, true, false},  // DLRM, bottom
                                           {512, 256, false, false},
                                           {256, 128, false, false},
                                           {480, 1024, true, false},  // DLRM, top
                                           {1024, 1024, false, false},
                                           {1024, 512, false, false},
                                           {512, 256, false, false},
                                           {256, 1, false, true},
                                           {429, 1024, true, false},  // DCN
                                           {1024, 1024, false, false},
                                           {1453, 1, false, true}}) {
    bench.layer(l.n, l.m, l.first, l.last);
  }
  return 0;
}
