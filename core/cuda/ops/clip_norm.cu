// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "core/cpp/ops/clip_norm.hpp"
#include "core/cuda/device/scratch_parts.hpp"
#include "core/cuda/primitives/block_sum.cuh"
#include "core/cuda/primitives/row_wise_updates.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kSumThreads = 1024;
constexpr unsigned kPieces = 256;  // blocks of a sum, whatever it is over: its order is fixed

// Sum of square(i) over this block's share of 0 .. n - 1.
template <class Square>
__device__ void sum_share(std::size_t n, const Square& square, double* partial) {
  double sum = 0.0;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kSumThreads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * kSumThreads + threadIdx.x; i < n;
       i += step) {
    sum += square(i);
  }
  sum = block_sum<kSumThreads>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// Floor: 4 bytes a number.
__global__ void __launch_bounds__(kSumThreads)
    sum_squares_kernel(const float* __restrict__ x, std::size_t n, double* partial) {
  sum_share(
      n, [&](std::size_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); },
      partial);
}

__global__ void __launch_bounds__(kSumThreads)
    sum_runs_kernel(const float* squares, const std::int64_t* count, double* partial) {
  sum_share(
      static_cast<std::size_t>(*count),
      [&](std::size_t i) { return static_cast<double>(squares[i]); }, partial);
}

// One warp.
__global__ void finish_kernel(const double* partial, bool accumulate, double* sum) {
  double all = 0.0;
  for (unsigned i = threadIdx.x; i < kPieces; i += 32) all += partial[i];
  all = group_sum<32>(all);
  if (threadIdx.x == 0) *sum = accumulate ? *sum + all : all;
}

// The squares of W numbers.
template <int W>
__device__ float squares_of(const Pack<float, W>& g) {
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < W; ++k) sum = fmaf(g.v[k], g.v[k], sum);
  return sum;
}

// |g|^2 of the runs of one chunk; lists the others. Moves 4 + size(T) d bytes an occurrence.
template <int W, class T>
__global__ void __launch_bounds__(kThreads)
    square_short_runs_kernel(Runs runs, BucketGradients<T> gradients, LongRuns long_runs,
                             float* squares, unsigned lanes) {
  const LaneGroup group(lanes);
  const std::size_t run_count = runs.size();
  for (std::size_t i = group.number; i < run_count; i += group.count) {
    const Run run{runs.offsets[i], runs.offsets[i + 1], 0};  // whose row it is does not matter
    if (run.end - run.begin > kChunk) {
      if (group.lane == 0) long_runs.add(i, run);
      continue;
    }
    float sum = 0.0f;
    for (unsigned column = group.lane * W; column < gradients.d; column += group.lanes * W) {
      sum += squares_of<W>(sum_occurrences<W, kShortAhead>(gradients, run.begin, run.end, column));
    }
    sum = group.sum(sum);
    if (group.lane == 0) squares[i] = sum;
  }
}

// The same of long runs that are folded.
template <int W>
__global__ void __launch_bounds__(kThreads)
    square_long_runs_kernel(LongRuns long_runs, std::size_t d, float* squares, unsigned lanes) {
  const LaneGroup group(lanes);
  const std::uint32_t run_count = long_runs.size();
  for (std::size_t i = group.number; i < run_count; i += group.count) {
    const LongRun run = long_runs.list[i];
    const float* const g = long_runs.sums + run.first * d;
    float sum = 0.0f;
    for (unsigned column = group.lane * W; column < d; column += group.lanes * W) {
      sum += squares_of<W>(load_pack<W>(g + column));
    }
    sum = group.sum(sum);
    if (group.lane == 0) squares[run.run] = sum;
  }
}

template <class T>
void square_runs(const OpContext& context, const RowSquareSum& op) {
  const char* name = RowSquareSum::kName;
  const std::size_t d = op.gradient.shape[2], max_runs = op.sorted_buckets.size();
  ScratchParts parts;
  const LongRunMemory memory(parts, op.sorted_buckets.size(), d);
  const std::size_t squares_at = parts.add<float>(max_runs);
  const std::size_t partial_at = parts.add<double>(kPieces);
  const Scratch scratch(context, parts.bytes());
  const LongRuns long_runs = memory.in(scratch);
  auto* const squares = part<float>(scratch, squares_at);
  auto* const partial = part<double>(scratch, partial_at);
  const auto* count = op.run_count.ptr<std::int64_t>();
  const Runs runs{nullptr, op.run_offsets.ptr<std::uint32_t>(), count};
  const auto gradients = bucket_gradients<T>(op.sorted_buckets, op.gradient, op.scale);

  HCTR_TRY(cudaMemsetAsync(long_runs.counters, 0, sizeof(LongRunCounters), native_stream(context)));
  const auto fits = [&](std::size_t w) {
    return row_packs_fit(w, d, op.gradient.row_stride, gradients.gradient);
  };
  with_row_width<4>(fits, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const unsigned lanes = lanes_of_row(d, kWidth), rows_a_block = kThreads / lanes;
    launch(context, name, dim3(grid_for(max_runs, rows_a_block)), dim3(kThreads), 0,
           &square_short_runs_kernel<kWidth, T>, runs, gradients, long_runs, squares, lanes);
    if (memory.max_runs == 0) return;
    const dim3 block = row_block<kWidth>(d),
               fold_block = row_block<kWidth>(d, kFoldThreads<kWidth>);
    launch(context, name, dim3(grid_for(memory.max_chunks, block.y)), block, 0,
           &sum_chunks_kernel<kWidth, T, false>, long_runs, gradients);
    launch(context, name, dim3(grid_for(memory.max_runs, fold_block.y)), fold_block, 0,
           &fold_long_runs_kernel<kWidth>, long_runs, d);
    launch(context, name, dim3(grid_for(memory.max_runs, rows_a_block)), dim3(kThreads), 0,
           &square_long_runs_kernel<kWidth>, long_runs, d, squares, lanes);
  });
  launch(context, name, dim3(kPieces), dim3(kSumThreads), 0, &sum_runs_kernel, squares, count,
         partial);
  launch(context, name, dim3(1), dim3(32), 0, &finish_kernel, partial, true, op.sum.ptr<double>());
}

void row_square_sum_kernel(const OpContext& context, const RowSquareSum& op) {
  if (op.sorted_buckets.size() == 0 || op.gradient.shape[2] == 0) return;
  with_real_type(op.gradient.dtype, [&]<class T>(T) { square_runs<T>(context, op); });
}

void square_sum_kernel(const OpContext& context, const SquareSum& op) {
  const Scratch scratch(context, kPieces * sizeof(double));
  auto* const partial = static_cast<double*>(scratch.data());
  launch(context, SquareSum::kName, dim3(kPieces), dim3(kSumThreads), 0, &sum_squares_kernel,
         op.x.ptr<float>(), op.x.size(), partial);
  launch(context, SquareSum::kName, dim3(1), dim3(32), 0, &finish_kernel, partial, false,
         op.sum.ptr<double>());
}

__global__ void clip_norm_kernel(const double* squares, std::size_t n, double clip_norm,
                                 bool scaled, float* unscale) {
  *unscale = clipped_unscale(squares, n, clip_norm, scaled ? *unscale : 1.0f);
}

void run_clip_norm(const OpContext& context, const ClipNorm& op) {
  launch(context, ClipNorm::kName, dim3(1), dim3(1), 0, &clip_norm_kernel, op.squares.ptr<double>(),
         op.squares.size(), op.clip_norm, op.scaled, op.unscale.ptr<float>());
}

const OpRegistration<SquareSum> square_sum_cuda{DeviceType::Cuda, &square_sum_kernel};
const OpRegistration<RowSquareSum> row_square_sum_cuda{DeviceType::Cuda, &row_square_sum_kernel};
const OpRegistration<ClipNorm> clip_norm_cuda{DeviceType::Cuda, &run_clip_norm};

}  // namespace
}  // namespace hugectr::cuda
