// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/ops/embedding_gradient.hpp"
#include "core/cuda/primitives/long_runs.cuh"
#include "core/cuda/primitives/many.cuh"

/// Kernels that sum the gradients of runs: of one table, and of many at once.
namespace hugectr::cuda {

// Runs of 17 to 64 occurrences are summed as long ones, a chunk each, where those are listed first:
// keys that came first have the lowest rows, so that frequent ones are neighbours, and a worker
// with eight of them was still busy when all others were done (150,000 rows of a power law: 150 us
// of 250).
inline constexpr unsigned kMediumRun = 16;

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

// Runs of at most kMost occurrences, a chunk or less; lists the others. The runs of a tile lie one
// after the other, so a worker streams through all that are between two long ones, as the lookup
// does. Moves 4 + size(T) d bytes an occurrence, 4 and size(Sum) d bytes a run.
template <int W, unsigned kRuns, unsigned kMost, class T, class Sum>
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
      is_short = is_short && stop[k] - end <= kMost;
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

template <int W, unsigned kRuns, unsigned kMost, class T, class Sum>
__global__ void __launch_bounds__(kMaxRowThreads<W>) sum_short_runs_kernel(Gradient<T, Sum> a) {
  sum_short_runs<W, kRuns, kMost>(a);
}
template <int W, unsigned kRuns, unsigned kMost, class T, class Sum>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    sum_many_short_runs_kernel(const __grid_constant__ Many<Gradient<T, Sum>> many) {
  sum_short_runs<W, kRuns, kMost>(many.mine());
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

// Runs among which long ones are listed, before others list them again for nobody.
struct Listing {
  const std::uint32_t* offsets;
  std::uint32_t runs;
  LongRuns long_runs;
};

static __global__ void list_long_runs_kernel(const __grid_constant__ Many<Listing> many) {
  const Listing& a = many.mine();
  const std::uint32_t step = gridDim.x * blockDim.x;
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.runs; i += step) {
    const Run run{a.offsets[i], a.offsets[i + 1], i};
    if (run.end - run.begin > kMediumRun) a.long_runs.add(i, run);
  }
}

static __global__ void clear_counters_kernel(const __grid_constant__ Many<LongRunCounters*> many) {
  *many.mine() = {};
}

}  // namespace hugectr::cuda
