// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>
#include <vector>

#include "core/cuda/device/launch.cuh"
#include "core/cuda/ops/small_lookup_sort.hpp"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

struct SmallSort {
  const std::uint32_t *rows, *buckets;
  std::uint32_t *sorted_buckets, *unique_rows, *run_offsets;
  std::int64_t* run_count;
  std::uint32_t n;
  int bits;  // of the largest row

  explicit SmallSort(const LookupSort& op)
      : rows(op.rows.ptr<std::uint32_t>()),
        buckets(op.buckets.ptr<std::uint32_t>()),
        sorted_buckets(op.sorted_buckets.ptr<std::uint32_t>()),
        unique_rows(op.unique_rows.ptr<std::uint32_t>()),
        run_offsets(op.run_offsets.ptr<std::uint32_t>()),
        run_count(op.run_count.ptr<std::int64_t>()),
        n(static_cast<std::uint32_t>(op.rows.size())),
        bits(std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(
                             std::max<std::int64_t>(op.row_count, 1) - 1))))) {}
};

// A thread holds kItems neighbours of the list, from i on. Moves 8 bytes a key in, 4 a key and 8 a
// run out.
template <int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    sort_small_kernel(const __grid_constant__ Many<SmallSort> many) {
  using Sort = cub::BlockRadixSort<std::uint32_t, kThreads, kItems, std::uint32_t>;
  using Scan = cub::BlockScan<std::uint32_t, kThreads>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename Scan::TempStorage scan;
  } shared;
  __shared__ std::uint32_t last_rows[kThreads];
  const SmallSort& a = many.mine();
  const std::uint32_t i = threadIdx.x * kItems;

  std::uint32_t rows[kItems], buckets[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    // What fills the list up is not below any row and comes behind those equal to it: the sort is
    // stable.
    rows[k] = i + k < a.n ? a.rows[i + k] : ~std::uint32_t{0};
    buckets[k] = i + k < a.n ? a.buckets[i + k] : 0;
  }
  Sort(shared.sort).Sort(rows, buckets, 0, a.bits);
  last_rows[threadIdx.x] = rows[kItems - 1];
  __syncthreads();  // of the sort's memory too

  std::uint32_t before = threadIdx.x > 0 ? last_rows[threadIdx.x - 1] : 0, starts = 0;
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const bool is_start = i + k < a.n && (i + k == 0 || rows[k] != before);
    starts |= static_cast<std::uint32_t>(is_start) << k;
    before = rows[k];
  }
  std::uint32_t run = 0, runs = 0;
  Scan(shared.scan).ExclusiveSum(static_cast<std::uint32_t>(__popc(starts)), run, runs);
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    if (i + k < a.n) a.sorted_buckets[i + k] = buckets[k];
    if ((starts >> k & 1) == 0) continue;
    a.run_offsets[run] = i + k;
    a.unique_rows[run] = rows[k];
    ++run;
  }
  if (threadIdx.x == 0) {
    a.run_offsets[runs] = a.n;
    *a.run_count = runs;
  }
}

template <int kThreads, int kItems>
void sort_by_blocks(const OpContext& context, const std::vector<SmallSort>& tables) {
  launch_many<SmallSort>(context, LookupSort::kSeveralName, tables, dim3(kThreads),
                         &sort_small_kernel<kThreads, kItems>, [](const SmallSort&) { return 1u; });
}

}  // namespace

void sort_small(const OpContext& context, std::span<const LookupSort> ops) {
  const std::vector<SmallSort> tables(ops.begin(), ops.end());
  std::uint32_t most = 0;
  for (const SmallSort& table : tables) most = std::max(most, table.n);
  // As few threads as hold the keys: a block waits for all of its own at every step.
  if (most <= 1024) return sort_by_blocks<256, 4>(context, tables);
  static_assert(kSmallSort == 1024 * 8);
  sort_by_blocks<1024, 8>(context, tables);
}

}  // namespace hugectr::cuda
