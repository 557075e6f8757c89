// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/dropout.hpp"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr {
namespace {

/// What decides which units are dropped; step and first sample are read where the kernel runs.
struct Mask {
  const std::int64_t* step;
  const std::int64_t* first_sample;
  std::uint64_t seed;
  std::int64_t layer;
  std::uint32_t threshold;
  float scale;
};

// A thread draws one counter: 8 units, 16 apart. Moves 8 bytes a unit; the ten rounds of Philox
// cost less than the bytes they decide over.
__global__ void dropout_units(std::size_t counters, cuda::FastDivide counters_per_row,
                              std::size_t units, Mask mask, cuda::Rows<const float> in,
                              cuda::Rows<float> out) {
  const std::uint64_t key = dropout_key(mask.seed, mask.layer, *mask.step);
  const auto first = static_cast<std::uint64_t>(*mask.first_sample);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < counters; i += step) {
    std::size_t counter;
    const std::size_t row = counters_per_row.divide(i, counter);
    const std::size_t unit = counter / kDropoutLanes * kDropoutBlock + counter % kDropoutLanes;
    const float* x = in.at(row, unit);
    float values[8];
#pragma unroll
    for (std::size_t h = 0; h < 8; ++h) {
      values[h] = unit + h * kDropoutLanes < units ? x[h * kDropoutLanes] : 0.0f;
    }
    const Philox4 words = philox4x32(key, counter, first + row);
    float* y = out.at(row, unit);
#pragma unroll
    for (std::size_t h = 0; h < 8; ++h) {
      const std::uint32_t bits = h % 2 == 0 ? words.x[h / 2] & 0xFFFFu : words.x[h / 2] >> 16;
      // A select instead of a product: a dropped NaN or infinity must give 0.
      if (unit + h * kDropoutLanes < units) {
        y[h * kDropoutLanes] = bits < mask.threshold ? 0.0f : values[h] * mask.scale;
      }
    }
  }
}

template <class Op>
void apply_dropout(const OpContext& ctx, const Op& op, const TensorRef& in, const TensorRef& out) {
  const Mask mask{op.step.template ptr<std::int64_t>(),
                  op.first_sample.template ptr<std::int64_t>(),
                  op.seed,
                  op.layer,
                  dropout_threshold(op.rate),
                  static_cast<float>(1.0 / (1.0 - op.rate))};
  const std::size_t units = in.row_size();
  const std::size_t per_row = (units + kDropoutBlock - 1) / kDropoutBlock * kDropoutLanes;
  const std::size_t counters = in.rows() * per_row;
  if (counters == 0) return;
  cuda::launch(ctx, Op::kName, dim3(cuda::grid_for(counters, cuda::kThreads)), dim3(cuda::kThreads),
               0, &dropout_units, counters, cuda::FastDivide(per_row), units, mask,
               cuda::rows_of<const float>(in), cuda::rows_of<float>(out));
}

void dropout_fwd_kernel(const OpContext& ctx, const DropoutFwd& op) {
  apply_dropout(ctx, op, op.x, op.y);
}

void dropout_bwd_kernel(const OpContext& ctx, const DropoutBwd& op) {
  apply_dropout(ctx, op, op.dy, op.dx);
}

const OpRegistration<DropoutFwd> dropout_fwd_cuda{DeviceType::Cuda, &dropout_fwd_kernel};
const OpRegistration<DropoutBwd> dropout_bwd_cuda{DeviceType::Cuda, &dropout_bwd_kernel};

}  // namespace
}  // namespace hugectr
