// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

#include "core/cuda/primitives/block_sum.cuh"
#include "core/cuda/primitives/column_parts.hpp"
#include "core/cuda/primitives/float_scratch.hpp"

/// The weights of all layers of a MultiCross, packed for its kernels.
namespace hugectr {
namespace {

/// What is the same for every sample, side by side in scratch.
struct CrossWeights {
  std::size_t layers = 0, n = 0;
  const float* w = nullptr;       ///< layers x n
  const float* bias = nullptr;    ///< B_0 .. B_L, n each
  const float* offset = nullptr;  ///< B_l . w_l
};

constexpr unsigned kBiasThreads = 256;

// Block l: B_l, and B_l . w_l in double. Moves a few kilobytes.
__global__ void __launch_bounds__(kBiasThreads)
    sum_biases(std::size_t layers, std::size_t n, const float* __restrict__ w,
               const float* __restrict__ b, float* __restrict__ bias, float* __restrict__ offset) {
  const std::size_t layer = blockIdx.x;
  double dot = 0.0;
  for (std::size_t j = threadIdx.x; j < n; j += kBiasThreads) {
    float sum = 0.0f;
    for (std::size_t l = 0; l < layer; ++l) sum += b[l * n + j];
    bias[layer * n + j] = sum;
    if (layer < layers) dot += static_cast<double>(sum) * static_cast<double>(w[layer * n + j]);
  }
  dot = cuda::block_sum<kBiasThreads>(dot);
  if (threadIdx.x == 0 && layer < layers) offset[layer] = static_cast<float>(dot);
}

/// Packs ws and bs of a forward or backward op; takes 2 L n + (L + 1) n + L floats of scratch.
template <class Op>
CrossWeights share_weights(const OpContext& ctx, const Op& op, cuda::FloatScratch& scratch) {
  const std::size_t layers = op.ws.size(), n = op.ws[0].size();
  float* w = scratch.take(layers * n);
  float* b = scratch.take(layers * n);
  float* bias = scratch.take((layers + 1) * n);
  float* offset = scratch.take(layers);
  std::vector<cuda::ColumnPart> parts;
  for (const auto& [to, from] : {std::pair{w, &op.ws}, std::pair{b, &op.bs}}) {
    for (std::size_t l = 0; l < layers; ++l) {
      cuda::ColumnPart part;
      part.to = to + l * n;
      part.count = n;
      part.sources[0] = {(*from)[l].template ptr<float>(), 0, 0};
      part.source_count = 1;
      cuda::append_part(parts, part);
    }
  }
  cuda::run_column_parts(ctx, Op::kName, 1, parts);
  cuda::launch(ctx, Op::kName, dim3(static_cast<unsigned>(layers + 1)), dim3(kBiasThreads), 0,
               &sum_biases, layers, n, w, b, bias, offset);
  return {layers, n, w, bias, offset};
}

}  // namespace
}  // namespace hugectr
