// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/embedding_gradient.hpp"
#include "core/cuda/device/scratch_parts.hpp"
#include "core/cuda/primitives/long_runs.cuh"

namespace hugectr::cuda {
namespace {

// Neighbouring runs of a worker: eight loads under way where each run has one occurrence. Of keys
// of a power law (alpha 1.2, 65,536 samples of 26) a tile has 17 occurrences, one in 100 has 69: of
// smaller tiles fewer loads are under way, larger ones end later.
constexpr unsigned kTile = 8;

template <class T, class Sum>
struct Gradient {
  BucketGradients<T> gradients;
  const std::uint32_t* offsets;
  LongRuns long_runs;
  Sum* sums;
  std::size_t runs;  // less than 2^32: each has an occurrence
};

// Runs of one chunk; lists the others. The runs of a tile lie one after the other, so a worker
// streams through all that are between two long ones, as the lookup does. Moves 4 + size(T) d bytes
// an occurrence, 4 and size(Sum) d bytes a run.
template <int W, class T, class Sum>
__global__ void __launch_bounds__(kMaxRowThreads<W>) sum_short_runs_kernel(Gradient<T, Sum> a) {
  const std::size_t first = row_worker() * kTile;
  if (first >= a.runs) return;
  const BucketGradients<T>& gradients = a.gradients;
  const unsigned column = threadIdx.x * W;
  auto run = static_cast<std::uint32_t>(first);
  const auto run_end = static_cast<std::uint32_t>(min(first + kTile, a.runs));

  // The ends of the runs, the next one in front; beyond the last run nothing changes any more.
  std::uint32_t stop[kTile];
  std::uint32_t begin = a.offsets[first];
#pragma unroll
  for (unsigned k = 0; k < kTile; ++k) {
    stop[k] = a.offsets[min(first + k + 1, std::size_t{run_end})];
  }
  const auto next_run = [&] {
    ++run;
#pragma unroll
    for (unsigned k = 0; k + 1 < kTile; ++k) stop[k] = stop[k + 1];
  };

  Pack<float, W> sum{};
  const auto finish_run = [&] {
    store_narrowed<W>(a.sums + run * gradients.d + column, sum);
    sum = {};
    next_run();
  };
  const auto load = [&](std::uint32_t bucket) {
    return ScaledVector<W, T>::load(gradients, bucket, column);
  };
  const auto take = [&](std::uint32_t i, const ScaledVector<W, T>& vector) {
    if (i == stop[0]) finish_run();  // another one begins: no run is empty
    vector.add_to(sum);
  };
  while (run < run_end) {
    std::uint32_t end = begin;  // of the short runs before the next long one
    bool is_short = true;
#pragma unroll
    for (unsigned k = 0; k < kTile; ++k) {
      is_short = is_short && stop[k] - end <= kChunk;
      if (is_short) end = stop[k];
    }
    if (begin < end) {
      stream_vectors<kVectorsAhead<T>>(gradients.buckets, begin, end, load, take);
      finish_run();
    } else {
      if (threadIdx.x == 0) a.long_runs.add(run, {begin, stop[0], run});
      end = stop[0];
      next_run();
    }
    begin = end;
  }
}

// Moves 4 d bytes a chunk and size(Sum) d bytes a long run.
template <int W, class Sum>
__global__ void __launch_bounds__(kFoldThreads<W>)
    sum_long_runs_kernel(LongRuns long_runs, std::size_t d, Sum* sums) {
  fold_long_runs<W>(long_runs, d, [&](const LongRun& run, const float* sum) {
    store_narrowed<W>(sums + run.run * d + threadIdx.x * W, load_pack<W>(sum));
  });
}

unsigned blocks_for(std::size_t workers, unsigned of_block) {
  return static_cast<unsigned>((workers + of_block - 1) / of_block);
}

template <int W, class T>
void sum_chunks(const OpContext& context, const LongRuns& long_runs,
                const BucketGradients<T>& gradients, std::size_t max_chunks) {
  const dim3 block = row_block<W>(gradients.d);
  // In 16 bits a worker for each chunk: shares of two, of the chunks that a power law makes, would
  // leave half of the workers that fit without any.
  const bool narrow = sizeof(T) == 2;
  const unsigned blocks = narrow ? blocks_for(max_chunks, block.y) : grid_for(max_chunks, block.y);
  launch(context, EmbeddingGradient::kName, dim3(blocks), block, 0,
         &sum_chunks_kernel<W, T, sizeof(T) == 2>, long_runs, gradients);
}

template <class T, class Sum>
void sum_runs(const OpContext& context, const EmbeddingGradient& op) {
  const char* name = EmbeddingGradient::kName;
  const std::size_t runs = op.sums.shape[0], d = op.sums.shape[1];
  ScratchParts parts;
  const LongRunMemory memory(parts, op.sorted_buckets.size(), d);
  const Scratch scratch(context, parts.bytes());
  const LongRuns long_runs = memory.in(scratch);
  const auto gradients = bucket_gradients<T>(op.sorted_buckets, op.gradient, op.scale);
  const Gradient<T, Sum> args{gradients, op.run_offsets.ptr<std::uint32_t>(), long_runs,
                              op.sums.ptr<Sum>(), runs};

  HCTR_TRY(cudaMemsetAsync(long_runs.counters, 0, sizeof(LongRunCounters), native_stream(context)));
  const auto fits = [&](std::size_t w) {
    return row_packs_fit(w, d, op.gradient.row_stride, gradients.gradient) &&
           row_packs_fit(w, d, d, args.sums);
  };
  with_row_width<kWidest<T, Sum>>(fits, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    constexpr int kLongWidth = std::min(kWidth, 4);  // sums of chunks are float32
    const dim3 block = row_block<kWidth>(d);
    const dim3 fold_block = row_block<kLongWidth>(d, kFoldThreads<kLongWidth>);
    const std::size_t tiles = (runs + kTile - 1) / kTile;
    launch(context, name, dim3(blocks_for(tiles, block.y)), block, 0,
           &sum_short_runs_kernel<kWidth, T, Sum>, args);
    if (memory.max_runs == 0) return;
    sum_chunks<kWidth>(context, long_runs, gradients, memory.max_chunks);
    launch(context, name, dim3(grid_for(memory.max_runs, fold_block.y)), fold_block, 0,
           &sum_long_runs_kernel<kLongWidth, Sum>, long_runs, d, args.sums);
  });
}

void embedding_gradient(const OpContext& context, const EmbeddingGradient& op) {
  if (op.sums.size() == 0) return;
  with_real_type(op.gradient.dtype, [&]<class T>(T) {
    with_real_type(op.sums.dtype, [&]<class Sum>(Sum) { sum_runs<T, Sum>(context, op); });
  });
}

const OpRegistration<EmbeddingGradient> embedding_gradient_cuda{DeviceType::Cuda,
                                                                &embedding_gradient};
const SeveralRegistration<EmbeddingGradient> several_embedding_gradient_cuda{DeviceType::Cuda};

}  // namespace
}  // namespace hugectr::cuda
