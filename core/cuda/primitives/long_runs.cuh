// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cuda/device/scratch_parts.hpp"
#include "core/cuda/primitives/bucket_gradients.cuh"
#include "core/cuda/primitives/run_sums.cuh"

/// Runs of a batch (lookup_sort.hpp) of more than 64 occurrences: keys of a power law may come 10^5
/// times. Whoever sums the short ones lists them; their chunks are then summed by a worker each
/// into scratch memory, and folded.
namespace hugectr::cuda {

struct Run {
  std::uint32_t begin, end, row;
};

/// A run of more than one chunk; the sums of its chunks start at `first`.
struct LongRun {
  std::uint32_t begin, end, row, run, first;
  __device__ std::uint32_t chunks() const { return chunks_of(begin, end); }
};

/// Chunks that one worker folds alone: fold_node() of three levels takes up to 15.
inline constexpr std::uint32_t kFewChunks = 15;

struct LongRunCounters {
  unsigned long long runs_and_chunks;  ///< runs << 32 | chunks: both grow together
  unsigned large;
};

/// Long runs in any order: no sum depends on it.
struct LongRuns {
  LongRunCounters* counters;
  LongRun* list;
  std::uint32_t* large;  ///< places in `list` of runs of more than kFewChunks
  float* sums;           ///< one vector a chunk

  __device__ std::uint32_t size() const {
    return static_cast<std::uint32_t>(counters->runs_and_chunks >> 32);
  }
  __device__ std::uint32_t chunks() const {
    return static_cast<std::uint32_t>(counters->runs_and_chunks);
  }
  __device__ void add(std::size_t run_number, const Run& run) const {
    const std::uint32_t count = chunks_of(run.begin, run.end);
    const unsigned long long at = atomicAdd(&counters->runs_and_chunks, 1ull << 32 | count);
    const auto place = static_cast<std::uint32_t>(at >> 32);
    list[place] = {run.begin, run.end, run.row, static_cast<std::uint32_t>(run_number),
                   static_cast<std::uint32_t>(at)};
    if (count > kFewChunks) large[atomicAdd(&counters->large, 1u)] = place;
  }
};

/// Stores W floats.
template <int W>
__device__ void store_sum(float* p, const Pack<float, W>& sum) {
  if constexpr (W <= 4) {
    store_pack<W>(p, sum);
  } else {
    static_assert(W == 8);
    store_pack<4>(p, Pack<float, 4>{sum.v[0], sum.v[1], sum.v[2], sum.v[3]});
    store_pack<4>(p + 4, Pack<float, 4>{sum.v[4], sum.v[5], sum.v[6], sum.v[7]});
  }
}

/// Sums of all chunks of long runs; a worker takes neighbouring ones. Either way of reading gives
/// the same bits.
template <int W, class T, bool kStreamed>
__device__ __forceinline__ void sum_chunks(const LongRuns& long_runs,
                                           const BucketGradients<T>& gradients) {
  const std::uint32_t run_count = long_runs.size(), chunk_count = long_runs.chunks();
  const auto workers = static_cast<std::uint32_t>(row_worker_count());
  const std::uint32_t each = (chunk_count + workers - 1) / workers;
  std::size_t chunk = row_worker() * each;
  const std::size_t stop = min(chunk + each, std::size_t{chunk_count});
  if (chunk >= stop) return;
  const unsigned column = threadIdx.x * W;
  std::uint32_t low = 0, high = run_count;  // the last run that starts at `chunk` or before
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (long_runs.list[middle].first <= chunk ? low : high) = middle;
  }
  LongRun run = long_runs.list[low];
  for (; chunk < stop; ++chunk) {
    if (chunk - run.first == run.chunks()) run = long_runs.list[++low];
    const std::uint32_t begin =
        run.begin + (static_cast<std::uint32_t>(chunk) - run.first) * kChunk;
    const std::uint32_t end = min(begin + kChunk, run.end);
    float* sum = long_runs.sums + chunk * gradients.d + column;
    if constexpr (kStreamed) {
      store_sum<W>(sum, stream_occurrences<W>(gradients, begin, end, column));
    } else {
      store_sum<W>(sum, sum_occurrences<W, 8>(gradients, begin, end, column));
    }
  }
}

template <int W, class T, bool kStreamed>
__global__ void __launch_bounds__(kMaxRowThreads<W>)
    sum_chunks_kernel(LongRuns long_runs, BucketGradients<T> gradients) {
  sum_chunks<W, T, kStreamed>(long_runs, gradients);
}

/// Threads of a block that folds a long run: more workers than elsewhere, as only a block works on
/// it.
template <int W>
inline constexpr unsigned kFoldThreads = W == 4 ? 512 : 1024;

/// Calls finish(run, sum) for every long run: those of few chunks a worker each, then the others a
/// block each. `sum` is at the thread's own columns.
template <int W, class Finish>
__device__ void fold_long_runs(const LongRuns& long_runs, std::size_t d, const Finish& finish) {
  const std::uint32_t count = long_runs.size(), large = long_runs.counters->large;
  const unsigned column = threadIdx.x * W;
  for (std::size_t i = row_worker(); i < count; i += row_worker_count()) {
    const LongRun run = long_runs.list[i];
    if (run.chunks() > kFewChunks) continue;
    float* sums = long_runs.sums + run.first * d + column;
    if (run.chunks() > 1) fold_few<W>(run.chunks(), sums, d);
    finish(run, sums);
  }
  for (std::uint32_t i = blockIdx.x; i < large; i += gridDim.x) {
    const LongRun run = long_runs.list[long_runs.large[i]];
    float* sums = long_runs.sums + run.first * d + column;
    fold_run<W>(run.chunks(), sums, d);
    if (threadIdx.y == 0) finish(run, sums);
  }
}

/// Scratch memory for the most long runs that a batch may have.
class LongRunMemory {
 public:
  // Every long run has at least 65 occurrences, or as many as the shortest that are taken for long,
  // and loses less than a chunk to its last one.
  LongRunMemory(ScratchParts& parts, std::size_t occurrences, std::size_t d,
                std::size_t shortest = kChunk + 1)
      : max_runs(occurrences / shortest),
        max_chunks(occurrences / kChunk + max_runs),
        counters_at_(parts.add<LongRunCounters>(1)),
        list_at_(parts.add<LongRun>(max_runs)),
        large_at_(parts.add<std::uint32_t>(occurrences / (kFewChunks * kChunk + 1))),
        sums_at_(parts.add<float>(max_runs > 0 ? max_chunks * d : 0)) {}

  /// The counters hold anything.
  LongRuns in(const Scratch& scratch) const {
    return {part<LongRunCounters>(scratch, counters_at_), part<LongRun>(scratch, list_at_),
            part<std::uint32_t>(scratch, large_at_), part<float>(scratch, sums_at_)};
  }

  const std::size_t max_runs, max_chunks;

 private:
  std::size_t counters_at_, list_at_, large_at_, sums_at_;
};

/// Occurrences of an update that may be parts of long runs.
template <class Update>
std::size_t in_long_runs(const Update& op) {
  const bool none = op.longest_run > 0 && op.longest_run <= std::int64_t{kChunk};
  return none ? 0 : op.sorted_buckets.size();
}

/// Whether one of several tables, each with a LongRunMemory `memory`, may have long runs: those
/// without are one launch, and going apart for it takes the host longer.
template <class Tables>
bool any_long_runs(const Tables& tables) {
  for (const auto& table : tables) {
    if (table.memory.max_runs > 0) return true;
  }
  return false;
}

}  // namespace hugectr::cuda
