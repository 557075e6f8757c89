// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cub/block/block_scan.cuh>
#include <span>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/row_cache.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/primitives/many.cuh"
#include "core/cuda/primitives/ordered_select.cuh"

/// Kernels of one table are those of several: a launch of many tables takes as long as of one, and
/// staging is made of launches. Places are given in row_cache_take.cu.
namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

__device__ std::size_t first_item() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::size_t item_step() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

struct Finding {
  const std::uint32_t *rows, *place_of;
  std::uint32_t *marks, *missing, *counts;
  const std::int64_t* row_count;
  std::int64_t* report;
  Stretches all;
  std::uint32_t pin, now;
  bool train;
};

// Rows that are there are pinned, the others counted.
__global__ void find_kernel(const __grid_constant__ Many<Finding> many) {
  const Finding& f = many.mine();
  if (!f.all.has_block()) return;
  const auto n = static_cast<std::size_t>(*f.row_count);
  count_selected(f.all, f.counts, [&](std::size_t i) {
    if (i >= n || f.rows[i] == kNoRow) return false;
    const std::uint32_t place = f.place_of[f.rows[i]];
    if (place == 0) return true;
    const std::uint32_t mark = f.marks[place - 1];
    f.marks[place - 1] = (f.train ? CacheMark::used(mark, f.now) : mark) | f.pin;
    return false;
  });
}

__global__ void list_missing_kernel(const __grid_constant__ Many<Finding> many) {
  const Finding& f = many.mine();
  if (!f.all.has_block()) return;
  const auto n = static_cast<std::size_t>(*f.row_count);
  const std::uint32_t missing = emit_selected(
      f.all, f.counts,
      [&](std::size_t i) { return i < n && f.rows[i] != kNoRow && f.place_of[f.rows[i]] == 0; },
      [&](std::size_t i, std::uint32_t k) { f.missing[k] = f.rows[i]; });
  if (!f.all.is_last() || threadIdx.x > 0) return;
  f.report[CacheReport::kMissing] = missing;
  // Rows ascend: the last may be kNoRow.
  const bool last_is_none = n > 0 && f.rows[n - 1] == kNoRow;
  f.report[CacheReport::kRows] = static_cast<std::int64_t>(n) - (last_is_none ? 1 : 0);
}

void find(const OpContext& context, const char* name, std::span<const CacheFind> ops) {
  std::size_t stretches = 0;
  for (const CacheFind& op : ops) stretches += Stretches(op.distinct.size()).count;
  const Scratch scratch(context, stretches * sizeof(std::uint32_t));
  auto* counts = static_cast<std::uint32_t*>(scratch.data());
  std::vector<Finding> tables;
  for (const CacheFind& op : ops) {
    tables.push_back({.rows = op.distinct.ptr<std::uint32_t>(),
                      .place_of = op.place_of.ptr<std::uint32_t>(),
                      .marks = op.marks.ptr<std::uint32_t>(),
                      .missing = op.missing.ptr<std::uint32_t>(),
                      .counts = counts,
                      .row_count = op.count.ptr<std::int64_t>(),
                      .report = op.report.ptr<std::int64_t>(),
                      .all = Stretches(op.distinct.size()),
                      .pin = CacheMark::pin(op.plan),
                      .now = static_cast<std::uint32_t>(op.now),
                      .train = op.train});
    counts += tables.back().all.count;
  }
  const auto blocks_of = [](const Finding& f) { return f.all.count; };
  launch_many<Finding>(context, name, tables, dim3(kSelectThreads), &find_kernel, blocks_of);
  launch_many<Finding>(context, name, tables, dim3(kSelectThreads), &list_missing_kernel,
                       blocks_of);
}

struct Releasing {
  const std::uint32_t* places;
  std::uint32_t* marks;
  std::size_t n;
  std::uint32_t keep;
};

// Two plans of a table may end at once.
__global__ void release_kernel(const __grid_constant__ Many<Releasing> many) {
  const Releasing& r = many.mine();
  for (std::size_t i = first_item(); i < r.n; i += item_step()) {
    atomicAnd(&r.marks[r.places[i]], r.keep);
  }
}

void release(const OpContext& context, const char* name, std::span<const CacheRelease> ops) {
  std::vector<Releasing> plans;
  for (const CacheRelease& op : ops) {
    plans.push_back({.places = op.places.ptr<std::uint32_t>(),
                     .marks = op.marks.ptr<std::uint32_t>(),
                     .n = op.places.size(),
                     .keep = ~CacheMark::pin(op.plan)});
  }
  launch_many<Releasing>(context, name, plans, dim3(kThreads), &release_kernel,
                         [](const Releasing& r) { return grid_for(r.n, kThreads); });
}

struct Ranking {
  std::uint32_t* marks;
  std::size_t places, first, least;
  std::uint32_t* bins;
  std::int64_t *report, *told;  // told may be null
  std::uint32_t keep, now;

  __device__ std::size_t first_ranked() const {
    return places_ranked(static_cast<std::size_t>(report[CacheReport::kMissing]), least, places);
  }
  /// Whether the first ones are not enough, as bound_kernel has reported.
  __device__ bool needs_rest() const {
    return first_ranked() < places &&
           report[CacheReport::kRanked] == static_cast<std::int64_t>(places);
  }
};

// Reads 4 bytes a place, of the first ones or of the rest.
template <bool kRest>
__global__ void rank_kernel(const __grid_constant__ Many<Ranking> many) {
  const Ranking& r = many.mine();
  __shared__ std::uint32_t own[CacheMark::kBins];
  if (kRest && !r.needs_rest()) return;
  const std::size_t begin = kRest ? r.first_ranked() : 0;
  const std::size_t end = kRest ? r.places : r.first_ranked();
  if (begin + static_cast<std::size_t>(blockIdx.x) * blockDim.x >= end) return;
  for (unsigned b = threadIdx.x; b < CacheMark::kBins; b += blockDim.x) own[b] = 0;
  __syncthreads();
  for (std::size_t i = begin + first_item(); i < end; i += item_step()) {
    std::uint32_t& place = r.marks[nth_place(r.first, i, r.places)];
    const std::uint32_t old = place, mark = CacheMark::settled(old & r.keep, r.now);
    if (mark != old) place = mark;
    if (CacheMark::pins(mark) == 0) atomicAdd(&own[CacheMark::bin(mark, r.now)], 1u);
  }
  __syncthreads();
  for (unsigned b = threadIdx.x; b < CacheMark::kBins; b += blockDim.x) {
    if (own[b] > 0) atomicAdd(&r.bins[b], own[b]);
  }
}

constexpr unsigned kBoundThreads = 1024, kBinsOfThread = 4;
static_assert(kBoundThreads * kBinsOfThread >= CacheMark::kBins);

// One block a table: where the running count of places reaches what is missing.
template <bool kRest>
__global__ void __launch_bounds__(kBoundThreads)
    bound_kernel(const __grid_constant__ Many<Ranking> many) {
  using Scan = cub::BlockScan<std::int64_t, kBoundThreads>;
  __shared__ typename Scan::TempStorage storage;
  const Ranking& r = many.mine();
  if (kRest && !r.needs_rest()) return;
  std::int64_t counts[kBinsOfThread], below[kBinsOfThread], free = 0;
#pragma unroll
  for (unsigned k = 0; k < kBinsOfThread; ++k) {
    const unsigned b = threadIdx.x * kBinsOfThread + k;
    counts[k] = b < CacheMark::kBins ? r.bins[b] : 0;
  }
  Scan(storage).ExclusiveSum(counts, below, free);
  const std::int64_t missing = r.report[CacheReport::kMissing];
  if (threadIdx.x == 0) {
    r.report[CacheReport::kFree] = free;
    // All are ranked next where these are not enough.
    const std::size_t ranked = free < missing ? r.places : r.first_ranked();
    if (!kRest) r.report[CacheReport::kRanked] = static_cast<std::int64_t>(ranked);
    if (free < missing) {
      r.report[CacheReport::kBound] = CacheMark::kBins;
      r.report[CacheReport::kBelow] = free;
    }
  }
#pragma unroll
  for (unsigned k = 0; k < kBinsOfThread; ++k) {
    const unsigned b = threadIdx.x * kBinsOfThread + k;
    // The first bin whose places suffice; nothing missing: bin 0.
    const bool first = missing > 0 ? below[k] < missing && missing <= below[k] + counts[k] : b == 0;
    if (!first) continue;
    r.report[CacheReport::kBound] = b;
    r.report[CacheReport::kBelow] = below[k];
  }
  __syncthreads();
  if (r.told && threadIdx.x < CacheReport::kSize) r.told[threadIdx.x] = r.report[threadIdx.x];
}

void rank(const OpContext& context, const char* name, std::span<const CacheRank> ops) {
  const std::size_t bytes = ops.size() * CacheMark::kBins * sizeof(std::uint32_t);
  const Scratch scratch(context, bytes);
  auto* bins = static_cast<std::uint32_t*>(scratch.data());
  HCTR_TRY(cudaMemsetAsync(bins, 0, bytes, native_stream(context)));
  std::vector<Ranking> tables;
  bool all = true;
  for (const CacheRank& op : ops) {
    all = all && static_cast<std::size_t>(op.least) >= op.marks.size();
    tables.push_back({.marks = op.marks.ptr<std::uint32_t>(),
                      .places = op.marks.size(),
                      .first = static_cast<std::size_t>(op.first),
                      .least = static_cast<std::size_t>(op.least),
                      .bins = bins,
                      .report = op.report.ptr<std::int64_t>(),
                      .told = op.told.empty() ? nullptr : op.told.ptr<std::int64_t>(),
                      .keep = static_cast<std::uint32_t>(op.live) << CacheMark::kFirstPin |
                              ((1u << CacheMark::kFirstPin) - 1),
                      .now = static_cast<std::uint32_t>(op.now)});
    bins += CacheMark::kBins;
  }
  // Each block has bins of its own to clear and to add: few blocks with much to count.
  const auto blocks_of_all = [](const Ranking& r) { return grid_for(r.places, 16 * kThreads); };
  const auto one_block = [](const Ranking&) { return 1u; };
  launch_many<Ranking>(context, name, tables, dim3(kThreads), &rank_kernel<false>,
                       [](const Ranking& r) {
                         // How many are missing is known to the device alone: more may be ranked.
                         return grid_for(std::min(r.places, 2 * r.least), 16 * kThreads);
                       });
  launch_many<Ranking>(context, name, tables, dim3(kBoundThreads), &bound_kernel<false>, one_block);
  if (all) return;
  launch_many<Ranking>(context, name, tables, dim3(kThreads), &rank_kernel<true>, blocks_of_all);
  launch_many<Ranking>(context, name, tables, dim3(kBoundThreads), &bound_kernel<true>, one_block);
}

struct Placing {
  const std::uint32_t* rows;
  const std::int64_t* count;  // null: n
  const std::uint32_t* place_of;
  std::uint32_t* places;
  std::size_t n;
};

__global__ void places_kernel(const __grid_constant__ Many<Placing> many) {
  const Placing& p = many.mine();
  const std::size_t n = p.count ? static_cast<std::size_t>(*p.count) : p.n;
  // 0, which says that there is no place, becomes kNoRow.
  for (std::size_t i = first_item(); i < n; i += item_step()) {
    p.places[i] = p.rows[i] == kNoRow ? kNoRow : p.place_of[p.rows[i]] - 1;
  }
}

void places(const OpContext& context, const char* name, std::span<const CachePlaces> ops) {
  std::vector<Placing> tables;
  for (const CachePlaces& op : ops) {
    tables.push_back({.rows = op.rows.ptr<std::uint32_t>(),
                      .count = op.count.empty() ? nullptr : op.count.ptr<std::int64_t>(),
                      .place_of = op.place_of.ptr<std::uint32_t>(),
                      .places = op.places.ptr<std::uint32_t>(),
                      .n = op.rows.size()});
  }
  launch_many<Placing>(context, name, tables, dim3(kThreads), &places_kernel,
                       [](const Placing& p) { return grid_for(p.n, kThreads); });
}

__global__ void homes_kernel(std::uint32_t* rows, const std::uint32_t* shifts, std::size_t n) {
  for (std::size_t i = first_item(); i < n; i += item_step()) {
    if (rows[i] != kNoRow) rows[i] += shifts[rows[i]];
  }
}

void cache_homes(const OpContext& context, const CacheHomes& op) {
  const std::size_t n = op.rows.size();
  if (n == 0) return;
  launch(context, CacheHomes::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0, &homes_kernel,
         op.rows.ptr<std::uint32_t>(), op.shifts.ptr<std::uint32_t>(), n);
}

struct Changing {
  const std::uint32_t* numbers;
  std::uint32_t *marks, *places, *rows, *counts;
  std::int64_t* found;
  Stretches all;
  std::uint32_t changing;
  bool every;

  __device__ bool is_listed(std::size_t p) const {
    return (marks[p] & CacheMark::kTaken) && (every || (marks[p] & CacheMark::kChanged));
  }
};

__global__ void count_changed_kernel(Changing c) {
  count_selected(c.all, c.counts, [&](std::size_t p) { return c.is_listed(p); });
}

__global__ void list_changed_kernel(Changing c) {
  const std::uint32_t found = emit_selected(
      c.all, c.counts, [&](std::size_t p) { return c.is_listed(p); },
      [&](std::size_t p, std::uint32_t k) {
        c.places[k] = static_cast<std::uint32_t>(p);
        c.rows[k] = c.numbers[p];
        if ((CacheMark::pins(c.marks[p]) & c.changing) == 0) c.marks[p] &= ~CacheMark::kChanged;
      });
  if (c.all.is_last() && threadIdx.x == 0) *c.found = found;
}

void cache_changed(const OpContext& context, const CacheChanged& op) {
  const Stretches all(op.marks.size());
  const Scratch scratch(context, all.count * sizeof(std::uint32_t));
  const Changing changing{.numbers = op.numbers.ptr<std::uint32_t>(),
                          .marks = op.marks.ptr<std::uint32_t>(),
                          .places = op.places.ptr<std::uint32_t>(),
                          .rows = op.rows.ptr<std::uint32_t>(),
                          .counts = static_cast<std::uint32_t*>(scratch.data()),
                          .found = op.report.ptr<std::int64_t>() + CacheReport::kMissing,
                          .all = all,
                          .changing = static_cast<std::uint32_t>(op.changing),
                          .every = op.all};
  launch(context, CacheChanged::kName, dim3(all.count), dim3(kSelectThreads), 0,
         &count_changed_kernel, changing);
  launch(context, CacheChanged::kName, dim3(all.count), dim3(kSelectThreads), 0,
         &list_changed_kernel, changing);
}

// An op's kernel and that of several, of one function.
template <class Op, void (*run_all)(const OpContext&, const char*, std::span<const Op>)>
struct Both {
  static void one(const OpContext& context, const Op& op) {
    run_all(context, Op::kName, std::span(&op, 1));
  }
  static void several(const OpContext& context, const Several<Op>& all) {
    run_all(context, Op::kSeveralName, all.ops);
  }
  const OpRegistration<Op> one_cuda{DeviceType::Cuda, &one};
  const SeveralRegistration<Op> several_cuda{DeviceType::Cuda, &several};
};

const Both<CacheFind, &find> cache_find_cuda;
const Both<CacheRelease, &release> cache_release_cuda;
const Both<CacheRank, &rank> cache_rank_cuda;
const Both<CachePlaces, &places> cache_places_cuda;
const OpRegistration<CacheHomes> cache_homes_cuda{DeviceType::Cuda, &cache_homes};
const OpRegistration<CacheChanged> cache_changed_cuda{DeviceType::Cuda, &cache_changed};

}  // namespace
}  // namespace hugectr::cuda
