// SPDX-License-Identifier: Apache-2.0
#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <optional>

#include "core/cpp/ops/lookup_sort.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/device/scratch.hpp"

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

const OpRegistration<LookupSort> lookup_sort_cuda{DeviceType::Cuda, &lookup_sort};

}  // namespace
}  // namespace hugectr::cuda
