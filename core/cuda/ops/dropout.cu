// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/dropout.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

/// What decides which units are dropped; step and first sample are read where the kernel runs.
struct Mask {
  const std::int64_t* step;
  const std::int64_t* first_sample;
  std::uint64_t seed;
  std::int64_t layer, rows_per_sample;
  std::uint32_t threshold;
  float scale;
};

/// Which of 8 numbers of 16 bits keep their unit, bit h for number h.
__device__ unsigned kept_numbers(const Philox4& words, std::uint32_t threshold) {
  unsigned kept = 0;
#pragma unroll
  for (unsigned h = 0; h < 8; ++h) {
    const std::uint32_t bits = h % 2 == 0 ? words.x[h / 2] & 0xFFFFu : words.x[h / 2] >> 16;
    kept |= static_cast<unsigned>(bits >= threshold) << h;
  }
  return kept;
}

// Half a warp works on a block of 128 units: each lane draws one counter, whose numbers belong to 8
// units 16 apart, and the lanes vote, so that each then knows the V neighbouring units it moves. A
// read and a write an element; the ten rounds of Philox cost less than the bytes they decide over.
template <int V, class T>
__global__ void dropout_units(std::size_t blocks, cuda::FastDivide blocks_per_row,
                              std::size_t units, Mask mask, cuda::Rows<const T> in,
                              cuda::Rows<T> out) {
  constexpr unsigned kLanes = kDropoutLanes;
  const std::uint64_t key = dropout_key(mask.seed, mask.layer, *mask.step);
  const auto first = static_cast<std::uint64_t>(*mask.first_sample * mask.rows_per_sample);
  const unsigned lane = threadIdx.x % kLanes, half = threadIdx.x % 32 / kLanes;
  const std::size_t warp = (static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const std::size_t warps = static_cast<std::size_t>(gridDim.x) * blockDim.x / 32;
  for (std::size_t pair = warp; pair * 2 < blocks; pair += warps) {
    std::size_t block;
    const std::size_t row = blocks_per_row.divide(pair * 2 + half, block);
    const Philox4 words = philox4x32(key, block * kLanes + lane, first + row);
    const unsigned kept = kept_numbers(words, mask.threshold);
    unsigned votes[8 / V] = {};  // on the units of each access
#pragma unroll
    for (unsigned h = 0; h < 8; ++h) {
      const unsigned vote = __ballot_sync(~0u, kept >> h & 1u);
#pragma unroll
      for (unsigned p = 0; p < 8 / V; ++p) {
        if ((p * kLanes + lane) * V / kLanes == h) votes[p] = vote;
      }
    }
    if (pair * 2 + half >= blocks) continue;
#pragma unroll
    for (unsigned p = 0; p < 8 / V; ++p) {
      const unsigned unit = (p * kLanes + lane) * V;  // of the block
      const unsigned vote = votes[p] >> (half * kLanes + unit % kLanes);
      const std::size_t column = block * kDropoutBlock + unit;
      if (column >= units) continue;
      // A select instead of a product: a dropped NaN or infinity must give 0.
      if (column + V <= units) {
        cuda::Pack<float, V> x = cuda::load_widened<V>(in.at(row, column));
#pragma unroll
        for (int k = 0; k < V; ++k) x.v[k] = vote >> k & 1u ? x.v[k] * mask.scale : 0.0f;
        cuda::store_narrowed<V>(out.at(row, column), x);
      } else {
        for (unsigned k = 0; column + k < units; ++k) {
          const float x = cuda::widen(*in.at(row, column + k));
          *out.at(row, column + k) = cuda::narrow<T>(vote >> k & 1u ? x * mask.scale : 0.0f);
        }
      }
    }
  }
}

template <class T, class Op>
void apply_dropout(const OpContext& ctx, const Op& op, const TensorRef& in, const TensorRef& out) {
  constexpr int kWidth = 16 / sizeof(T);
  const Mask mask{op.step.template ptr<std::int64_t>(),
                  op.first_sample.template ptr<std::int64_t>(),
                  op.seed,
                  op.layer,
                  op.rows_per_sample,
                  dropout_threshold(op.rate),
                  static_cast<float>(1.0 / (1.0 - op.rate))};
  const std::size_t units = in.row_size();
  const std::size_t per_row = (units + kDropoutBlock - 1) / kDropoutBlock;
  const std::size_t blocks = in.rows() * per_row;
  const auto fits = [](const TensorRef& t) {
    return cuda::packs_fit(t.ptr<T>(), t.rows() > 1 ? t.row_stride : 0, kWidth);
  };
  cuda::launch(ctx, Op::kName, dim3(cuda::grid_for(blocks * kDropoutLanes, cuda::kThreads)),
               dim3(cuda::kThreads), 0,
               fits(in) && fits(out) ? &dropout_units<kWidth, T> : &dropout_units<1, T>, blocks,
               cuda::FastDivide(per_row), units, mask, cuda::rows_of<const T>(in),
               cuda::rows_of<T>(out));
}

void dropout_fwd_kernel(const OpContext& ctx, const DropoutFwd& op) {
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) { apply_dropout<T>(ctx, op, op.x, op.y); });
}

void dropout_bwd_kernel(const OpContext& ctx, const DropoutBwd& op) {
  cuda::with_real_type(op.dy.dtype, [&]<class T>(T) { apply_dropout<T>(ctx, op, op.dy, op.dx); });
}

const OpRegistration<DropoutFwd> dropout_fwd_cuda{DeviceType::Cuda, &dropout_fwd_kernel};
const OpRegistration<DropoutBwd> dropout_bwd_cuda{DeviceType::Cuda, &dropout_bwd_kernel};

}  // namespace
}  // namespace hugectr
