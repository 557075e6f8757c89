// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/embedding_gradient.hpp"
#include "core/cuda/device/branches.hpp"
#include "core/cuda/device/scratch_parts.hpp"
#include "core/cuda/primitives/long_runs.cuh"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

// Neighbouring runs of a worker where they are short: eight loads under way where each run has one
// occurrence. Of keys of a power law (alpha 1.2, 65,536 samples of 26) a tile has 17 occurrences,
// one in 100 has 69: of smaller tiles fewer loads are under way, larger ones end later.
constexpr unsigned kTile = 8;

// One where they are long, as those of a table of few rows: a run of 40 occurrences keeps a worker
// busy by itself, and eight of them one after the other kept the GPU waiting for a few workers (100
// tables of 100 to 10,000 rows on an H100: 163 us, four times a step).
bool takes_one_run(const EmbeddingGradient& op) {
  return op.sorted_buckets.size() > 12 * op.sums.shape[0];
}

// What a kernel needs and no more: one more flag here made the compiler's code for all of them
// another one, 5 % slower for vectors of 16.
template <class T, class Sum>
struct Gradient {
  BucketGradients<T> gradients;
  const std::uint32_t* offsets;
  LongRuns long_runs;
  Sum* sums;
  std::uint32_t runs;  // less than 2^32: each has an occurrence
  float factor;
  std::uint32_t max_long_runs, max_chunks;  // what grids are made for
};

template <int W>
__device__ Pack<float, W> scaled(Pack<float, W> sum, float factor) {
#pragma unroll
  for (int k = 0; k < W; ++k) sum.v[k] *= factor;
  return sum;
}

// Runs of one chunk; lists the others. The runs of a tile lie one after the other, so a worker
// streams through all that are between two long ones, as the lookup does. Moves 4 + size(T) d bytes
// an occurrence, 4 and size(Sum) d bytes a run.
template <int W, unsigned kRuns, class T, class Sum>
__device__ __forceinline__ void sum_short_runs(const Gradient<T, Sum>& a) {
  const std::size_t first = row_worker() * kRuns;
  if (first >= a.runs) return;
  const BucketGradients<T>& gradients = a.gradients;
  const unsigned column = threadIdx.x * W;
  auto run = static_cast<std::uint32_t>(first);
  const auto run_end = static_cast<std::uint32_t>(min(first + kRuns, std::size_t{a.runs}));

  // The ends of the runs, the next one in front; beyond the tile's last one nothing changes.
  std::uint32_t stop[kRuns];
  std::uint32_t begin = a.offsets[first];
#pragma unroll
  for (unsigned k = 0; k < kRuns; ++k) {
    stop[k] = a.offsets[min(first + k + 1, std::size_t{run_end})];
  }
  const auto next_run = [&] {
    ++run;
#pragma unroll
    for (unsigned k = 0; k + 1 < kRuns; ++k) stop[k] = stop[k + 1];
  };

  Pack<float, W> sum{};
  const auto finish_run = [&] {
    store_narrowed<W>(a.sums + run * gradients.d + column, scaled(sum, a.factor));
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
    for (unsigned k = 0; k < kRuns; ++k) {
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
template <int W, class T, class Sum>
__device__ __forceinline__ void sum_long_runs(const Gradient<T, Sum>& a) {
  const std::size_t d = a.gradients.d;
  fold_long_runs<W>(a.long_runs, d, [&](const LongRun& run, const float* sum) {
    store_narrowed<W>(a.sums + run.run * d + threadIdx.x * W, scaled(load_pack<W>(sum), a.factor));
  });
}

template <int W, unsigned kRuns, class T, class Sum>
__global__ void __launch_bounds__(kMaxRowThreads<W>) sum_short_runs_kernel(Gradient<T, Sum> a) {
  sum_short_runs<W, kRuns>(a);
}
template <int W, unsigned kRuns, class T, class Sum>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    sum_many_short_runs_kernel(const __grid_constant__ Many<Gradient<T, Sum>> many) {
  sum_short_runs<W, kRuns>(many.mine());
}

template <int W, class T, class Sum>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    sum_many_chunks_kernel(const __grid_constant__ Many<Gradient<T, Sum>> many) {
  const Gradient<T, Sum>& a = many.mine();
  sum_chunks<W, T, sizeof(T) == 2>(a.long_runs, a.gradients);
}

template <int W, class T, class Sum>
__global__ void __launch_bounds__(kFoldThreads<W>) sum_long_runs_kernel(Gradient<T, Sum> a) {
  sum_long_runs<W>(a);
}
template <int W, class T, class Sum>
__global__ void __launch_bounds__(kFoldThreads<W>)
    sum_many_long_runs_kernel(const __grid_constant__ Many<Gradient<T, Sum>> many) {
  sum_long_runs<W>(many.mine());
}

__global__ void clear_counters_kernel(const __grid_constant__ Many<LongRunCounters*> many) {
  *many.mine() = {};
}

unsigned blocks_for(std::size_t workers, unsigned of_block) {
  return static_cast<unsigned>((workers + of_block - 1) / of_block);
}

template <unsigned kRuns, class T, class Sum>
unsigned tile_blocks(const Gradient<T, Sum>& a, unsigned of_block) {
  return blocks_for((std::size_t{a.runs} + kRuns - 1) / kRuns, of_block);
}

/// Calls f(std::integral_constant<unsigned, kRuns>) with the runs of a worker.
template <class F>
void with_runs_of_worker(bool one, const F& f) {
  if (one) return f(std::integral_constant<unsigned, 1>{});
  f(std::integral_constant<unsigned, kTile>{});
}

// In 16 bits a worker for each chunk: shares of two, of the chunks that a power law makes, would
// leave half of the workers that fit without any.
template <class T>
unsigned chunk_blocks(std::size_t max_chunks, unsigned of_block) {
  return sizeof(T) == 2 ? blocks_for(max_chunks, of_block) : grid_for(max_chunks, of_block);
}

template <class T, class Sum>
Gradient<T, Sum> gradient_of(const EmbeddingGradient& op, const LongRunMemory& memory,
                             const Scratch& scratch) {
  return {bucket_gradients<T>(op.sorted_buckets, op.gradient, op.scale),
          op.run_offsets.ptr<std::uint32_t>(),
          memory.in(scratch),
          op.sums.ptr<Sum>(),
          static_cast<std::uint32_t>(op.sums.shape[0]),
          static_cast<float>(op.factor),
          static_cast<std::uint32_t>(memory.max_runs),
          static_cast<std::uint32_t>(memory.max_chunks)};
}

/// Calls f(std::integral_constant<int, W>) with what the vectors of an op can be read by.
template <class T, class Sum, class F>
void with_width_of(const Gradient<T, Sum>& args, const F& f) {
  const std::size_t d = args.gradients.d;
  const auto fits = [&](std::size_t w) {
    return row_packs_fit(w, d, args.gradients.row_stride, args.gradients.gradient) &&
           row_packs_fit(w, d, d, args.sums);
  };
  with_row_width<kWidest<T, Sum>>(fits, f);
}

template <class T, class Sum>
void sum_runs(const OpContext& context, const EmbeddingGradient& op) {
  const char* name = EmbeddingGradient::kName;
  const std::size_t d = op.sums.shape[1];
  ScratchParts parts;
  const LongRunMemory memory(parts, op.sorted_buckets.size(), d);
  const Scratch scratch(context, parts.bytes());
  const Gradient<T, Sum> args = gradient_of<T, Sum>(op, memory, scratch);
  const LongRuns& long_runs = args.long_runs;
  HCTR_TRY(cudaMemsetAsync(long_runs.counters, 0, sizeof(LongRunCounters), native_stream(context)));
  with_width_of(args, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    constexpr int kLongWidth = std::min(kWidth, 4);  // sums of chunks are float32
    const dim3 block = row_block<kWidth>(d);
    const dim3 fold_block = row_block<kLongWidth>(d, kFoldThreads<kLongWidth>);
    with_runs_of_worker(takes_one_run(op), [&](auto runs) {
      constexpr unsigned kRuns = decltype(runs)::value;
      launch(context, name, dim3(tile_blocks<kRuns>(args, block.y)), block, 0,
             &sum_short_runs_kernel<kWidth, kRuns, T, Sum>, args);
    });
    if (memory.max_runs == 0) return;
    launch(context, name, dim3(chunk_blocks<T>(memory.max_chunks, block.y)), block, 0,
           &sum_chunks_kernel<kWidth, T, sizeof(T) == 2>, long_runs, args.gradients);
    launch(context, name, dim3(grid_for(memory.max_runs, fold_block.y)), fold_block, 0,
           &sum_long_runs_kernel<kLongWidth, T, Sum>, args);
  });
}

/// Tables of one vector size and width, which go together.
template <class T, class Sum>
struct Alike {
  std::vector<Gradient<T, Sum>> all;
  std::map<bool, std::vector<Gradient<T, Sum>>> by_runs_of_worker;  // whether it takes one
};

template <class T, class Sum>
void sum_alike(const OpContext& context, std::size_t d, const Alike<T, Sum>& some) {
  using Args = Gradient<T, Sum>;
  const char* name = EmbeddingGradient::kSeveralName;
  with_width_of(some.all.front(), [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    constexpr int kLongWidth = std::min(kWidth, 4);
    const dim3 block = row_block<kWidth>(d);
    const dim3 fold_block = row_block<kLongWidth>(d, kFoldThreads<kLongWidth>);
    for (const auto& [one, tables] : some.by_runs_of_worker) {
      with_runs_of_worker(one, [&](auto runs) {
        constexpr unsigned kRuns = decltype(runs)::value;
        launch_many<Args>(context, name, tables, block,
                          &sum_many_short_runs_kernel<kWidth, kRuns, T, Sum>,
                          [&](const Args& a) { return tile_blocks<kRuns>(a, block.y); });
      });
    }
    launch_many<Args>(context, name, some.all, block, &sum_many_chunks_kernel<kWidth, T, Sum>,
                      [&](const Args& a) { return chunk_blocks<T>(a.max_chunks, block.y); });
    launch_many<Args>(context, name, some.all, fold_block,
                      &sum_many_long_runs_kernel<kLongWidth, T, Sum>,
                      [&](const Args& a) { return grid_for(a.max_long_runs, fold_block.y); });
  });
}

/// Of one type of gradients and sums.
template <class T, class Sum>
void sum_of_types(const OpContext& context, const std::vector<const EmbeddingGradient*>& ops) {
  ScratchParts parts;
  std::vector<LongRunMemory> memories;
  for (const EmbeddingGradient* op : ops) {
    memories.emplace_back(parts, op->sorted_buckets.size(), op->sums.shape[1]);
  }
  const Scratch scratch(context, parts.bytes());
  std::vector<LongRunCounters*> counters;
  std::map<std::pair<std::size_t, int>, Alike<T, Sum>> pieces;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Gradient<T, Sum> args = gradient_of<T, Sum>(*ops[i], memories[i], scratch);
    counters.push_back(args.long_runs.counters);
    with_width_of(args, [&](auto width) {
      Alike<T, Sum>& some = pieces[{args.gradients.d, width()}];
      some.all.push_back(args);
      some.by_runs_of_worker[takes_one_run(*ops[i])].push_back(args);
    });
  }
  launch_many<LongRunCounters*>(context, EmbeddingGradient::kSeveralName, counters, dim3(1),
                                &clear_counters_kernel, [](LongRunCounters*) { return 1u; });
  // A piece's launches wait for each other, and each for the run that takes longest: those of other
  // pieces fill the device meanwhile (100 tables of five sizes on two H200: 1.68 to .7 ms).
  Branches branches(context, pieces.size());
  std::size_t at = 0;
  for (const auto& [key, some] : pieces) sum_alike(branches.context(at++), key.first, some);
  branches.join();
}

void embedding_gradient(const OpContext& context, const EmbeddingGradient& op) {
  if (op.sums.size() == 0) return;
  with_real_type(op.gradient.dtype, [&]<class T>(T) {
    with_real_type(op.sums.dtype, [&]<class Sum>(Sum) { sum_runs<T, Sum>(context, op); });
  });
}

void embedding_gradients(const OpContext& context, const Several<EmbeddingGradient>& several) {
  std::map<std::pair<TensorScalarType, TensorScalarType>, std::vector<const EmbeddingGradient*>>
      alike;
  for (const EmbeddingGradient& op : several.ops) {
    if (op.sums.size() > 0) alike[{op.gradient.dtype, op.sums.dtype}].push_back(&op);
  }
  for (const auto& [types, ops] : alike) {
    with_real_type(types.first, [&]<class T>(T) {
      with_real_type(types.second, [&]<class Sum>(Sum) { sum_of_types<T, Sum>(context, ops); });
    });
  }
}

const OpRegistration<EmbeddingGradient> embedding_gradient_cuda{DeviceType::Cuda,
                                                                &embedding_gradient};
const SeveralRegistration<EmbeddingGradient> several_embedding_gradient_cuda{DeviceType::Cuda,
                                                                             &embedding_gradients};

}  // namespace
}  // namespace hugectr::cuda
