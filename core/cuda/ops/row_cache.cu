// SPDX-License-Identifier: Apache-2.0
#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <bit>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/row_cache.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/device/scratch_parts.hpp"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

__device__ std::size_t first_item() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::size_t item_step() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

std::int64_t* reported(const TensorRef& report, std::size_t what) {
  return report.ptr<std::int64_t>() + what;
}

// to[0], to[1], ... := those of 0 .. n - 1 that `selects`, in their order; *count: how many.
template <class Selects>
void select_in_order(const OpContext& context, std::size_t n, const Selects& selects,
                     std::uint32_t* to, std::int64_t* count) {
  if (n == 0) {
    HCTR_TRY(cudaMemsetAsync(count, 0, sizeof *count, native_stream(context)));
    return;
  }
  const thrust::counting_iterator<std::uint32_t> all(0);
  std::size_t bytes = 0;
  HCTR_TRY(cub::DeviceSelect::If(nullptr, bytes, all, to, count, static_cast<std::int64_t>(n),
                                 selects, native_stream(context)));
  const Scratch temporary(context, bytes);
  HCTR_TRY(cub::DeviceSelect::If(temporary.data(), bytes, all, to, count,
                                 static_cast<std::int64_t>(n), selects, native_stream(context)));
}

// Whether the i-th row of a plan has no place.
struct IsMissing {
  const std::uint32_t *rows, *place_of;
  const std::int64_t* count;
  __device__ bool operator()(std::uint32_t i) const {
    return i < *count && rows[i] != kNoRow && place_of[rows[i]] == 0;
  }
};

// missing[] holds places in the list: they become rows. Rows that are there are pinned.
__global__ void find_kernel(const std::uint32_t* __restrict__ rows,
                            const std::uint32_t* __restrict__ place_of,
                            std::uint32_t* __restrict__ marks, std::uint32_t* __restrict__ missing,
                            const std::int64_t* __restrict__ row_count, std::int64_t* report,
                            std::uint32_t pin, bool train) {
  const auto n = static_cast<std::size_t>(*row_count);
  const auto absent = static_cast<std::size_t>(report[CacheReport::kMissing]);
  for (std::size_t i = first_item(); i < n; i += item_step()) {
    if (i < absent) missing[i] = rows[missing[i]];
    const std::uint32_t place = rows[i] == kNoRow ? 0 : place_of[rows[i]];
    if (place == 0) continue;
    const std::uint32_t mark = marks[place - 1];
    marks[place - 1] = (train ? CacheMark::used(mark) : mark) | pin;
  }
  if (first_item() == 0) {  // rows ascend: the last may be kNoRow
    report[CacheReport::kRows] =
        static_cast<std::int64_t>(n) - (n > 0 && rows[n - 1] == kNoRow ? 1 : 0);
  }
}

void cache_find(const OpContext& context, const CacheFind& op) {
  const std::size_t n = op.distinct.size();
  const auto* rows = op.distinct.ptr<std::uint32_t>();
  const auto* place_of = op.place_of.ptr<std::uint32_t>();
  const auto* count = op.count.ptr<std::int64_t>();
  auto* missing = op.missing.ptr<std::uint32_t>();
  select_in_order(context, n, IsMissing{rows, place_of, count}, missing,
                  reported(op.report, CacheReport::kMissing));
  launch(context, CacheFind::kName, dim3(std::max(1u, grid_for(n, kThreads))), dim3(kThreads), 0,
         &find_kernel, rows, place_of, op.marks.ptr<std::uint32_t>(), missing, count,
         op.report.ptr<std::int64_t>(), CacheMark::pin(op.plan), op.train);
}

// Reads and writes 4 bytes a place.
__global__ void rank_kernel(std::uint32_t* __restrict__ marks, std::size_t places,
                            std::uint32_t* __restrict__ bins, std::uint32_t keep, bool ages,
                            bool halves) {
  __shared__ std::uint32_t own[CacheMark::kBins];
  for (unsigned b = threadIdx.x; b < CacheMark::kBins; b += blockDim.x) own[b] = 0;
  __syncthreads();
  for (std::size_t p = first_item(); p < places; p += item_step()) {
    std::uint32_t mark = marks[p] & keep;
    if (ages) mark = CacheMark::aged(mark, halves);
    marks[p] = mark;
    if (CacheMark::pins(mark) == 0) atomicAdd(&own[CacheMark::bin(mark)], 1u);
  }
  __syncthreads();
  for (unsigned b = threadIdx.x; b < CacheMark::kBins; b += blockDim.x) {
    if (own[b] > 0) atomicAdd(&bins[b], own[b]);
  }
}

constexpr unsigned kBoundThreads = 1024, kBinsOfThread = 4;
static_assert(kBoundThreads * kBinsOfThread >= CacheMark::kBins);

// One block: where the running count of places reaches what is missing.
__global__ void __launch_bounds__(kBoundThreads)
    bound_kernel(const std::uint32_t* __restrict__ bins, std::int64_t* report) {
  using Scan = cub::BlockScan<std::int64_t, kBoundThreads>;
  __shared__ typename Scan::TempStorage storage;
  std::int64_t counts[kBinsOfThread], below[kBinsOfThread], free = 0;
#pragma unroll
  for (unsigned k = 0; k < kBinsOfThread; ++k) {
    const unsigned b = threadIdx.x * kBinsOfThread + k;
    counts[k] = b < CacheMark::kBins ? bins[b] : 0;
  }
  Scan(storage).ExclusiveSum(counts, below, free);
  const std::int64_t missing = report[CacheReport::kMissing];
  if (threadIdx.x == 0) {
    report[CacheReport::kFree] = free;
    if (free < missing) {
      report[CacheReport::kBound] = CacheMark::kBins;
      report[CacheReport::kBelow] = free;
    }
  }
#pragma unroll
  for (unsigned k = 0; k < kBinsOfThread; ++k) {
    const unsigned b = threadIdx.x * kBinsOfThread + k;
    // The first bin whose places suffice; nothing missing: bin 0.
    const bool first = missing > 0 ? below[k] < missing && missing <= below[k] + counts[k] : b == 0;
    if (!first) continue;
    report[CacheReport::kBound] = b;
    report[CacheReport::kBelow] = below[k];
  }
}

void cache_rank(const OpContext& context, const CacheRank& op) {
  constexpr std::size_t kBytes = CacheMark::kBins * sizeof(std::uint32_t);
  const Scratch scratch(context, kBytes);
  auto* bins = static_cast<std::uint32_t*>(scratch.data());
  HCTR_TRY(cudaMemsetAsync(bins, 0, kBytes, native_stream(context)));
  const std::uint32_t keep = static_cast<std::uint32_t>(op.live) << CacheMark::kFirstPin |
                             ((1u << CacheMark::kFirstPin) - 1);
  const std::size_t places = op.marks.size();
  // Each block has bins of its own to clear and to add: few blocks with much to count.
  launch(context, CacheRank::kName, dim3(grid_for(places, 16 * kThreads)), dim3(kThreads), 0,
         &rank_kernel, op.marks.ptr<std::uint32_t>(), places, bins, keep, op.ages, op.halves);
  launch(context, CacheRank::kName, dim3(1), dim3(kBoundThreads), 0, &bound_kernel, bins,
         op.report.ptr<std::int64_t>());
}

// Whether a place may be given up, by its bin: below the bound, or of it.
struct IsVictim {
  const std::uint32_t* marks;
  std::uint32_t bound;
  bool of_bound;
  __device__ bool operator()(std::uint32_t p) const {
    const std::uint32_t bin = CacheMark::bin(marks[p]);
    return CacheMark::pins(marks[p]) == 0 && (of_bound ? bin == bound : bin < bound);
  }
};

struct Taking {
  const std::uint32_t* missing;
  std::uint32_t *place_of, *numbers, *marks, *places, *leaving, *coming;
  std::int64_t* report;
  std::size_t n;
  std::int64_t fresh_from;
  std::uint32_t mark;  // of a place that is taken
};

__device__ void add_count(std::int64_t* to, unsigned count) {
  const unsigned sum = __reduce_add_sync(0xffffffffu, count);
  if (threadIdx.x % 32 == 0 && sum > 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(sum));
  }
}

// The places that are given, and what they are sorted by: the row that leaves, or `none`.
__global__ void victims_kernel(const std::uint32_t* __restrict__ below_bound, std::size_t below,
                               const std::uint32_t* __restrict__ of_bound,
                               const std::uint32_t* __restrict__ marks,
                               const std::uint32_t* __restrict__ numbers, std::uint32_t none,
                               std::size_t n, std::uint32_t* places, std::uint32_t* leaving) {
  for (std::size_t i = first_item(); i < n; i += item_step()) {
    const std::uint32_t place = i < below ? below_bound[i] : of_bound[i - below];
    places[i] = place;
    leaving[i] = CacheMark::leaves(marks[place]) ? numbers[place] : none;
  }
}

__global__ void take_kernel(Taking t) {
  unsigned sent = 0, fetched = 0;
  for (std::size_t i = first_item(); i < t.n; i += item_step()) {
    const std::uint32_t place = t.places[i], row = t.missing[i];
    const std::uint32_t mark = t.marks[place], old = t.numbers[place];
    const bool taken = mark & CacheMark::kTaken;
    const bool leaves = CacheMark::leaves(mark);
    const bool comes = row < t.fresh_from;
    t.leaving[i] = leaves ? old : kNoRow;
    t.coming[i] = comes ? row : kNoRow;
    sent += leaves, fetched += comes;
    // What leaves had a place and what comes had none: no row is both.
    if (taken) t.place_of[old] = 0;
    t.place_of[row] = place + 1;
    t.numbers[place] = row;
    t.marks[place] = t.mark;
  }
  add_count(t.report + CacheReport::kSent, sent);
  add_count(t.report + CacheReport::kFetched, fetched);
}

void cache_take(const OpContext& context, const CacheTake& op) {
  const std::size_t n = op.missing.size(), places = op.marks.size();
  if (n == 0) return;
  const auto* marks = op.marks.ptr<std::uint32_t>();
  const auto bound = static_cast<std::uint32_t>(op.bound);
  const auto none = static_cast<std::uint32_t>(op.place_of.size());
  const int bits = std::bit_width(none);
  auto* const given = op.places.ptr<std::uint32_t>();
  std::size_t sort_bytes = 0;
  HCTR_TRY(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, given, given, given, given, n, 0,
                                           bits, native_stream(context)));
  ScratchParts parts;
  const std::size_t selected_at = parts.add<std::int64_t>(1);
  const std::size_t of_bound_at = parts.add<std::uint32_t>(places);
  const std::size_t victims_at = parts.add<std::uint32_t>(n);
  const std::size_t keys_at = parts.add<std::uint32_t>(n);
  const std::size_t sort_at = parts.add<std::byte>(sort_bytes);
  const Scratch scratch(context, parts.bytes());
  auto* selected = part<std::int64_t>(scratch, selected_at);
  auto* of_bound = part<std::uint32_t>(scratch, of_bound_at);
  auto* victims = part<std::uint32_t>(scratch, victims_at);
  auto* keys = part<std::uint32_t>(scratch, keys_at);
  select_in_order(context, places, IsVictim{marks, bound, false}, given, selected);
  select_in_order(context, places, IsVictim{marks, bound, true}, of_bound, selected);
  launch(context, CacheTake::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0, &victims_kernel,
         given, static_cast<std::size_t>(op.below), of_bound, marks,
         op.numbers.ptr<std::uint32_t>(), none, n, victims, keys);
  // Sorted keys are of no use to anybody: what leaves is found once more.
  HCTR_TRY(cub::DeviceRadixSort::SortPairs(part<std::byte>(scratch, sort_at), sort_bytes, keys,
                                           op.leaving.ptr<std::uint32_t>(), victims, given, n, 0,
                                           bits, native_stream(context)));
  launch(context, CacheTake::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0, &take_kernel,
         Taking{.missing = op.missing.ptr<std::uint32_t>(),
                .place_of = op.place_of.ptr<std::uint32_t>(),
                .numbers = op.numbers.ptr<std::uint32_t>(),
                .marks = op.marks.ptr<std::uint32_t>(),
                .places = op.places.ptr<std::uint32_t>(),
                .leaving = op.leaving.ptr<std::uint32_t>(),
                .coming = op.coming.ptr<std::uint32_t>(),
                .report = op.report.ptr<std::int64_t>(),
                .n = n,
                .fresh_from = op.fresh_from,
                .mark = CacheMark::pin(op.plan) | CacheMark::kTaken |
                        (op.train ? CacheMark::used(0) : 0)});
}

__global__ void places_kernel(const std::uint32_t* __restrict__ rows,
                              const std::int64_t* __restrict__ count,
                              const std::uint32_t* __restrict__ place_of,
                              std::uint32_t* __restrict__ places, std::size_t n) {
  if (count) n = static_cast<std::size_t>(*count);
  // 0, which says that there is no place, becomes kNoRow.
  for (std::size_t i = first_item(); i < n; i += item_step()) {
    places[i] = rows[i] == kNoRow ? kNoRow : place_of[rows[i]] - 1;
  }
}

void cache_places(const OpContext& context, const CachePlaces& op) {
  const std::size_t n = op.rows.size();
  launch(context, CachePlaces::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0,
         &places_kernel, op.rows.ptr<std::uint32_t>(),
         op.count.empty() ? nullptr : op.count.ptr<std::int64_t>(),
         op.place_of.ptr<std::uint32_t>(), op.places.ptr<std::uint32_t>(), n);
}

struct IsChanged {
  const std::uint32_t* marks;
  bool all;
  __device__ bool operator()(std::uint32_t p) const {
    return (marks[p] & CacheMark::kTaken) && (all || (marks[p] & CacheMark::kChanged));
  }
};

__global__ void changed_kernel(const std::uint32_t* __restrict__ numbers,
                               std::uint32_t* __restrict__ marks,
                               const std::uint32_t* __restrict__ places,
                               std::uint32_t* __restrict__ rows,
                               const std::int64_t* __restrict__ count, std::uint32_t changing) {
  const auto n = static_cast<std::size_t>(*count);
  for (std::size_t k = first_item(); k < n; k += item_step()) {
    const std::uint32_t place = places[k], mark = marks[place];
    rows[k] = numbers[place];
    if ((CacheMark::pins(mark) & changing) == 0) marks[place] = mark & ~CacheMark::kChanged;
  }
}

void cache_changed(const OpContext& context, const CacheChanged& op) {
  const std::size_t n = op.marks.size();
  auto* marks = op.marks.ptr<std::uint32_t>();
  std::int64_t* const count = reported(op.report, CacheReport::kMissing);
  select_in_order(context, n, IsChanged{marks, op.all}, op.places.ptr<std::uint32_t>(), count);
  launch(context, CacheChanged::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0,
         &changed_kernel, op.numbers.ptr<std::uint32_t>(), marks, op.places.ptr<std::uint32_t>(),
         op.rows.ptr<std::uint32_t>(), count, static_cast<std::uint32_t>(op.changing));
}

const OpRegistration<CacheFind> cache_find_cuda{DeviceType::Cuda, &cache_find};
const OpRegistration<CacheRank> cache_rank_cuda{DeviceType::Cuda, &cache_rank};
const OpRegistration<CacheTake> cache_take_cuda{DeviceType::Cuda, &cache_take};
const OpRegistration<CachePlaces> cache_places_cuda{DeviceType::Cuda, &cache_places};
const OpRegistration<CacheChanged> cache_changed_cuda{DeviceType::Cuda, &cache_changed};

}  // namespace
}  // namespace hugectr::cuda
