// SPDX-License-Identifier: Apache-2.0
#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <optional>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/lookup_sort.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/device/scratch_parts.hpp"
#include "core/cuda/ops/small_lookup_sort.hpp"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

struct StartsRun {
  const std::uint32_t* rows;
  __device__ bool operator()(std::uint32_t i) const { return i == 0 || rows[i] != rows[i - 1]; }
};

// run_offsets holds the starts of the runs; adds the end of the last one and the rows.
__global__ void name_runs_kernel(const std::uint32_t* __restrict__ sorted_rows, std::uint32_t n,
                                 const std::int64_t* __restrict__ run_count,
                                 std::uint32_t* __restrict__ run_offsets,
                                 std::uint32_t* __restrict__ unique_rows) {
  const auto runs = static_cast<std::size_t>(*run_count);
  const std::size_t thread = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t run = thread; run < runs; run += step) {
    unique_rows[run] = sorted_rows[run_offsets[run]];
  }
  if (thread == 0) run_offsets[runs] = n;
}

// CUB's radix sort is stable. It moves 16 bytes a pair for every 8 bits of the row, and 4 more a
// key to count digits; the runs cost another 4 to 8.
void lookup_sort(const OpContext& context, const LookupSort& op) {
  const std::size_t n = op.rows.size();
  const cudaStream_t stream = native_stream(context);
  auto* run_offsets = op.run_offsets.ptr<std::uint32_t>();
  auto* run_count = op.run_count.ptr<std::int64_t>();
  if (n == 0) {
    HCTR_TRY(cudaMemsetAsync(run_count, 0, sizeof *run_count, stream));
    HCTR_TRY(cudaMemsetAsync(run_offsets, 0, sizeof *run_offsets, stream));
    return;
  }
  if (n <= kSmallSort) return sort_small(context, {&op, 1});
  HCTR_CHECK(n <= 0xFFFFFFFFu, LookupSort::kName, ": ", n, " keys are more than 2^32 - 1");
  const auto count = static_cast<std::uint32_t>(n);
  const auto* rows = op.rows.ptr<std::uint32_t>();
  const auto* buckets = op.buckets.ptr<std::uint32_t>();
  auto* sorted_buckets = op.sorted_buckets.ptr<std::uint32_t>();
  auto* sorted_rows = reinterpret_cast<std::uint32_t*>(op.scratch.ptr<std::uint64_t>());
  const int bits = std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(
                                   std::max<std::int64_t>(op.row_count, 1) - 1))));

  const thrust::counting_iterator<std::uint32_t> places(0);
  const StartsRun starts_run{sorted_rows};
  std::size_t sort_bytes = 0, select_bytes = 0;
  HCTR_TRY(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, rows, sorted_rows, buckets,
                                           sorted_buckets, count, 0, bits, stream));
  HCTR_TRY(cub::DeviceSelect::If(nullptr, select_bytes, places, run_offsets, run_count,
                                 static_cast<std::int64_t>(n), starts_run, stream));
  // CUB needs about 8 bytes a pair besides its counters; behind the sorted rows there are 12.
  const std::size_t used = (n * sizeof(std::uint32_t) + 255) / 256 * 256;
  const std::size_t wanted = std::max(sort_bytes, select_bytes);
  std::optional<Scratch> more;
  void* temporary = reinterpret_cast<char*>(sorted_rows) + used;
  if (used + wanted > op.scratch.size_in_bytes()) temporary = more.emplace(context, wanted).data();
  HCTR_TRY(cub::DeviceRadixSort::SortPairs(temporary, sort_bytes, rows, sorted_rows, buckets,
                                           sorted_buckets, count, 0, bits, stream));
  HCTR_TRY(cub::DeviceSelect::If(temporary, select_bytes, places, run_offsets, run_count,
                                 static_cast<std::int64_t>(n), starts_run, stream));
  launch(context, LookupSort::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0,
         &name_runs_kernel, sorted_rows, count, run_count, run_offsets,
         op.unique_rows.ptr<std::uint32_t>());
}

// One table's part of a sort of many: its rows counted behind those of the tables before it, so
// that one sort leaves its keys where they were, among themselves in order.
struct SortPart {
  const std::uint32_t *rows, *buckets;
  std::uint32_t *sorted_buckets, *unique_rows, *run_offsets;
  std::int64_t* run_count;
  std::uint32_t n, first_key, first_row;
};

// All tables, one after the other.
struct SortAll {
  std::uint32_t *rows, *buckets, *sorted_rows, *sorted_buckets, *starts;
  const std::int64_t* run_count;
};

struct SortOne {
  SortPart part;
  SortAll all;
};

__global__ void gather_keys_kernel(const __grid_constant__ Many<SortOne> many) {
  const auto& [part, all] = many.mine();
  const std::uint32_t step = gridDim.x * blockDim.x;
  for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < part.n; i += step) {
    all.rows[part.first_key + i] = part.first_row + part.rows[i];
    all.buckets[part.first_key + i] = part.buckets[i];
  }
}

// The first run that begins at `key` or later.
__device__ std::int64_t first_run(const SortAll& all, std::uint32_t key) {
  std::int64_t low = 0, high = *all.run_count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (all.starts[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

__global__ void deal_out_runs_kernel(const __grid_constant__ Many<SortOne> many) {
  const auto& [part, all] = many.mine();
  __shared__ std::int64_t ends[2];
  if (threadIdx.x < 2) ends[threadIdx.x] = first_run(all, part.first_key + threadIdx.x * part.n);
  __syncthreads();
  const std::int64_t first = ends[0], count = ends[1] - first;
  const std::uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  const std::uint32_t step = gridDim.x * blockDim.x;
  for (std::uint64_t i = thread; i < part.n; i += step) {
    part.sorted_buckets[i] = all.sorted_buckets[part.first_key + i];
  }
  for (std::int64_t run = thread; run < count; run += step) {
    const std::uint32_t start = all.starts[first + run];
    part.run_offsets[run] = start - part.first_key;
    part.unique_rows[run] = all.sorted_rows[start] - part.first_row;
  }
  if (thread == 0) {
    part.run_offsets[count] = part.n;
    *part.run_count = count;
  }
}

// What many tables need is one sort of all their keys: a sort of few takes as long as its launches.
void lookup_sorts(const OpContext& context, const Several<LookupSort>& several) {
  std::uint64_t keys = 0, rows = 0, most_keys = 0;
  for (const LookupSort& op : several.ops) {
    keys += op.rows.size();
    most_keys = std::max<std::uint64_t>(most_keys, op.rows.size());
    rows += static_cast<std::uint64_t>(op.row_count);
  }
  if (most_keys <= kSmallSort) return sort_small(context, several.ops);
  constexpr std::uint64_t kMost = 0xFFFFFFFFu;
  if (keys == 0 || keys > kMost || rows > kMost) return run_one_after_the_other(context, several);
  const auto n = static_cast<std::uint32_t>(keys);
  const cudaStream_t stream = native_stream(context);
  const int bits = std::max(1, static_cast<int>(std::bit_width(rows - 1)));

  std::size_t sort_bytes = 0, select_bytes = 0;
  const thrust::counting_iterator<std::uint32_t> places(0);
  std::uint32_t* const none = nullptr;
  HCTR_TRY(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, none, none, none, none, n, 0, bits,
                                           stream));
  HCTR_TRY(cub::DeviceSelect::If(nullptr, select_bytes, places, none,
                                 static_cast<std::int64_t*>(nullptr), static_cast<std::int64_t>(n),
                                 StartsRun{none}, stream));
  ScratchParts parts;
  std::array<std::size_t, 5> at{};
  for (std::size_t& place : at) place = parts.add<std::uint32_t>(n);
  const std::size_t count_at = parts.add<std::int64_t>(1);
  const std::size_t temporary_at = parts.add<char>(std::max(sort_bytes, select_bytes));
  const Scratch scratch(context, parts.bytes());
  auto* run_count = part<std::int64_t>(scratch, count_at);
  auto* temporary = part<char>(scratch, temporary_at);
  const SortAll all{part<std::uint32_t>(scratch, at[0]), part<std::uint32_t>(scratch, at[1]),
                    part<std::uint32_t>(scratch, at[2]), part<std::uint32_t>(scratch, at[3]),
                    part<std::uint32_t>(scratch, at[4]), run_count};

  std::vector<SortOne> tables;
  std::uint32_t first_key = 0, first_row = 0;
  for (const LookupSort& op : several.ops) {
    const auto count = static_cast<std::uint32_t>(op.rows.size());
    tables.push_back({{op.rows.ptr<std::uint32_t>(), op.buckets.ptr<std::uint32_t>(),
                       op.sorted_buckets.ptr<std::uint32_t>(), op.unique_rows.ptr<std::uint32_t>(),
                       op.run_offsets.ptr<std::uint32_t>(), op.run_count.ptr<std::int64_t>(), count,
                       first_key, first_row},
                      all});
    first_key += count;
    first_row += static_cast<std::uint32_t>(op.row_count);
  }
  const auto blocks_of = [](const SortOne& one) {
    return std::max(1u, grid_for(one.part.n, kThreads));
  };
  launch_many<SortOne>(context, LookupSort::kSeveralName, tables, dim3(kThreads),
                       &gather_keys_kernel, blocks_of);
  HCTR_TRY(cub::DeviceRadixSort::SortPairs(temporary, sort_bytes, all.rows, all.sorted_rows,
                                           all.buckets, all.sorted_buckets, n, 0, bits, stream));
  HCTR_TRY(cub::DeviceSelect::If(temporary, select_bytes, places, all.starts, run_count,
                                 static_cast<std::int64_t>(n), StartsRun{all.sorted_rows}, stream));
  launch_many<SortOne>(context, LookupSort::kSeveralName, tables, dim3(kThreads),
                       &deal_out_runs_kernel, blocks_of);
}

const OpRegistration<LookupSort> lookup_sort_cuda{DeviceType::Cuda, &lookup_sort};
const SeveralRegistration<LookupSort> several_lookup_sort_cuda{DeviceType::Cuda, &lookup_sorts};

}  // namespace
}  // namespace hugectr::cuda
