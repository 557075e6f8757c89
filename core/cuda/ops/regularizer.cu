// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/regularizer.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/block_sum.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 1024;
constexpr unsigned kGradThreads = 256;

template <RegularizerKind kKind>
__device__ double term(float w) {
  const auto value = static_cast<double>(w);
  return kKind == RegularizerKind::L1 ? fabs(value) : 0.5 * value * value;
}

// Floor: 4 bytes a weight. A piece may begin and end anywhere; what lies between its 16-byte
// borders is read in 16-byte accesses, the rest one by one.
template <RegularizerKind kKind>
__global__ void __launch_bounds__(kThreads)
    sum_piece_kernel(const float* __restrict__ w, std::size_t n, std::size_t piece, bool aligned,
                     double* partial) {
  const std::size_t begin = blockIdx.x * piece;
  const std::size_t end = begin + piece < n ? begin + piece : n;
  std::size_t middle = aligned ? (begin + 3) / 4 * 4 : end;
  if (middle > end) middle = end;
  const std::size_t groups = (end - middle) / 4;
  const std::size_t tail = middle + groups * 4;
  double sum = 0.0;
  for (std::size_t i = begin + threadIdx.x; i < middle; i += kThreads) sum += term<kKind>(w[i]);
  const auto* w4 = reinterpret_cast<const float4*>(w + middle);
#pragma unroll 4
  for (std::size_t i = threadIdx.x; i < groups; i += kThreads) {
    const float4 v = w4[i];
    sum += (term<kKind>(v.x) + term<kKind>(v.y)) + (term<kKind>(v.z) + term<kKind>(v.w));
  }
  if (tail + threadIdx.x < end) sum += term<kKind>(w[tail + threadIdx.x]);
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One warp.
__global__ void add_loss_kernel(const double* partial, std::size_t pieces, double factor,
                                float* loss) {
  double sum = 0.0;
  for (std::size_t i = threadIdx.x; i < pieces; i += 32) sum += partial[i];
  sum = group_sum<32>(sum);
  if (threadIdx.x == 0) *loss += static_cast<float>(factor * sum);
}

// Floor: reads w and dw, writes dw: 12 bytes a weight.
template <RegularizerKind kKind>
__global__ void __launch_bounds__(kGradThreads)
    add_gradient_kernel(const float* __restrict__ w, float* __restrict__ dw, std::size_t n,
                        bool aligned, float share, const float* loss_scale) {
  const float factor = (loss_scale == nullptr ? 1.0f : *loss_scale) * share;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kGradThreads;
  const std::size_t thread = static_cast<std::size_t>(blockIdx.x) * kGradThreads + threadIdx.x;
  const std::size_t groups = aligned ? n / 4 : 0;
  for (std::size_t i = thread; i < groups; i += step) {
    const float4 v = reinterpret_cast<const float4*>(w)[i];
    float4 d = reinterpret_cast<float4*>(dw)[i];
    d.x += factor * regularizer_slope(kKind, v.x);
    d.y += factor * regularizer_slope(kKind, v.y);
    d.z += factor * regularizer_slope(kKind, v.z);
    d.w += factor * regularizer_slope(kKind, v.w);
    reinterpret_cast<float4*>(dw)[i] = d;
  }
  for (std::size_t i = groups * 4 + thread; i < n; i += step) {
    dw[i] += factor * regularizer_slope(kKind, w[i]);
  }
}

bool aligned_16(const float* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

void regularizer_loss_kernel(const OpContext& context, const RegularizerLoss& op) {
  const std::size_t n = op.w.size();
  const std::size_t pieces = op.partial.rows();
  const float* w = op.w.ptr<float>();
  double* partial = op.partial.ptr<double>();
  const auto kernel = op.kind == RegularizerKind::L1 ? &sum_piece_kernel<RegularizerKind::L1>
                                                     : &sum_piece_kernel<RegularizerKind::L2>;
  launch(context, "regularizer_loss", dim3(static_cast<unsigned>(pieces)), dim3(kThreads), 0,
         kernel, w, n, samples_per_partial(n), aligned_16(w), partial);
  launch(context, "regularizer_loss total", dim3(1), dim3(32), 0, &add_loss_kernel, partial, pieces,
         op.share * op.lambda, op.loss.ptr<float>());
}

void regularizer_grad_kernel(const OpContext& context, const RegularizerGrad& op) {
  const std::size_t n = op.w.size();
  if (n == 0) return;
  const float* w = op.w.ptr<float>();
  float* dw = op.dw.ptr<float>();
  const auto kernel = op.kind == RegularizerKind::L1 ? &add_gradient_kernel<RegularizerKind::L1>
                                                     : &add_gradient_kernel<RegularizerKind::L2>;
  launch(context, "regularizer_grad", dim3(grid_for(n, 4 * kGradThreads)), dim3(kGradThreads), 0,
         kernel, w, dw, n, aligned_16(w) && aligned_16(dw),
         static_cast<float>(op.share * op.lambda),
         op.loss_scale.empty() ? nullptr : op.loss_scale.ptr<float>());
}

const OpRegistration<RegularizerLoss> regularizer_loss_cuda{DeviceType::Cuda,
                                                            &regularizer_loss_kernel};
const OpRegistration<RegularizerGrad> regularizer_grad_cuda{DeviceType::Cuda,
                                                            &regularizer_grad_kernel};

}  // namespace
}  // namespace hugectr::cuda
