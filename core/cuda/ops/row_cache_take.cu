// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <span>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/row_cache.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/device/scratch_parts.hpp"
#include "core/cuda/primitives/many.cuh"
#include "core/cuda/primitives/ordered_select.cuh"

/// Places for missing rows, of any number of tables in the launches of one.
namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

// What one sort takes: 32 bits tell apart the rows of all its tables, and a row that is none of
// each.
constexpr std::uint64_t kMostSorted = std::uint64_t{1} << 32;

// Places that are given, and what is sorted: behind the rows of the tables before, places by the
// row that leaves (none leaves: the number behind all rows of the table), or where rows swap homes
// the rows that come by theirs.
struct Victims {
  const std::uint32_t *marks, *numbers, *missing, *shifts;  // the last may be null
  std::uint32_t *below_counts, *bound_counts, *places, *keys, *values;
  Stretches all;
  std::size_t first_place, places_there, below, n;
  std::uint32_t bound, now, first_row, none;

  __device__ std::size_t place_of(std::size_t i) const {
    return nth_place(first_place, i, places_there);
  }
  __device__ bool is_below(std::size_t i) const {
    const std::uint32_t mark = marks[place_of(i)];
    return CacheMark::pins(mark) == 0 && CacheMark::bin(mark, now) < bound;
  }
  __device__ bool is_of_bound(std::size_t i) const {
    const std::uint32_t mark = marks[place_of(i)];
    return CacheMark::pins(mark) == 0 && CacheMark::bin(mark, now) == bound;
  }
  __device__ void give(std::size_t i, std::size_t at) const {
    const std::size_t p = place_of(i);
    const auto place = static_cast<std::uint32_t>(p);
    if (shifts) {
      const std::uint32_t row = missing[at];
      places[at] = place;
      values[at] = row;
      keys[at] = first_row + row + shifts[row];
    } else {
      values[at] = place;
      keys[at] = first_row + (CacheMark::leaves(marks[p]) ? numbers[p] : none);
    }
  }
};

__global__ void count_victims_kernel(const __grid_constant__ Many<Victims> many) {
  const Victims& v = many.mine();
  if (!v.all.has_block()) return;
  count_selected(v.all, v.below_counts, [&](std::size_t i) { return v.is_below(i); });
  count_selected(v.all, v.bound_counts, [&](std::size_t i) { return v.is_of_bound(i); });
}

__global__ void list_victims_kernel(const __grid_constant__ Many<Victims> many) {
  const Victims& v = many.mine();
  if (!v.all.has_block()) return;
  emit_selected(
      v.all, v.below_counts, [&](std::size_t i) { return v.is_below(i); },
      [&](std::size_t i, std::size_t k) {
        if (k < v.below) v.give(i, k);
      });
  emit_selected(
      v.all, v.bound_counts, [&](std::size_t i) { return v.is_of_bound(i); },
      [&](std::size_t i, std::size_t k) {
        if (v.below + k < v.n) v.give(i, v.below + k);
      });
}

struct Taking {
  const std::uint32_t *given, *missing;
  std::uint32_t *place_of, *numbers, *marks, *places, *leaving, *coming, *shifts;
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

__global__ void take_kernel(const __grid_constant__ Many<Taking> many) {
  const Taking& t = many.mine();
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  unsigned sent = 0, fetched = 0;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < t.n;
       i += step) {
    const std::uint32_t place = t.given[i], row = t.missing[i];
    const std::uint32_t mark = t.marks[place], old = t.numbers[place];
    const bool taken = mark & CacheMark::kTaken;
    const bool leaves = CacheMark::leaves(mark);
    const bool comes = row < t.fresh_from;
    const bool swaps = t.shifts && leaves;
    const std::uint32_t home = t.shifts ? row + t.shifts[row] : row;
    t.places[i] = place;
    t.leaving[i] = leaves ? (swaps ? home : old) : kNoRow;
    t.coming[i] = comes ? home : kNoRow;
    sent += leaves, fetched += comes;
    // What leaves had a place and what comes had none: no row is both.
    if (taken) t.place_of[old] = 0;
    if (swaps) {
      t.shifts[row] = old + t.shifts[old] - row;
      t.shifts[old] = home - old;
    }
    t.place_of[row] = place + 1;
    t.numbers[place] = row;
    t.marks[place] = t.mark | (swaps ? CacheMark::kChanged : 0);
  }
  add_count(t.report + CacheReport::kSent, sent);
  add_count(t.report + CacheReport::kFetched, fetched);
}

// Tables whose rows one sort tells apart.
void take_together(const OpContext& context, const char* name, std::span<const CacheTake> ops) {
  std::size_t n = 0, stretches = 0;
  std::uint64_t rows = 0;
  for (const CacheTake& op : ops) {
    n += op.missing.size();
    stretches += Stretches(static_cast<std::size_t>(op.ranked)).count;
    rows += op.place_of.size() + 1;
  }
  const int bits = std::bit_width(rows - 1);
  std::uint32_t* const nothing = nullptr;
  std::size_t sort_bytes = 0;
  HCTR_TRY(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, nothing, nothing, nothing, nothing,
                                           n, 0, bits, native_stream(context)));
  ScratchParts parts;
  std::array<std::size_t, 4> at{};
  for (std::size_t& list : at) list = parts.add<std::uint32_t>(n);
  const std::size_t counts_at = parts.add<std::uint32_t>(2 * stretches);
  const std::size_t sort_at = parts.add<std::byte>(sort_bytes);
  const Scratch scratch(context, parts.bytes());
  auto* const values = part<std::uint32_t>(scratch, at[0]);
  auto* const keys = part<std::uint32_t>(scratch, at[1]);
  auto* const sorted = part<std::uint32_t>(scratch, at[2]);
  auto* const sorted_keys = part<std::uint32_t>(scratch, at[3]);  // of use to nobody
  auto* counts = part<std::uint32_t>(scratch, counts_at);

  std::vector<Victims> victims;
  std::vector<Taking> taking;
  std::size_t first = 0;
  std::uint64_t first_row = 0;
  for (const CacheTake& op : ops) {
    const Stretches all(static_cast<std::size_t>(op.ranked));
    const auto now = static_cast<std::uint32_t>(op.now);
    const std::uint32_t unused = CacheMark::unused(0, now);
    auto* const shifts = op.shifts.empty() ? nullptr : op.shifts.ptr<std::uint32_t>();
    const auto* const missing = op.missing.ptr<std::uint32_t>();
    auto* const given = op.places.ptr<std::uint32_t>();
    victims.push_back({.marks = op.marks.ptr<std::uint32_t>(),
                       .numbers = op.numbers.ptr<std::uint32_t>(),
                       .missing = missing,
                       .shifts = shifts,
                       .below_counts = counts,
                       .bound_counts = counts + all.count,
                       .places = given,
                       .keys = keys + first,
                       .values = values + first,
                       .all = all,
                       .first_place = static_cast<std::size_t>(op.first),
                       .places_there = op.marks.size(),
                       .below = static_cast<std::size_t>(op.below),
                       .n = op.missing.size(),
                       .bound = static_cast<std::uint32_t>(op.bound),
                       .now = now,
                       .first_row = static_cast<std::uint32_t>(first_row),
                       .none = static_cast<std::uint32_t>(op.place_of.size())});
    taking.push_back({.given = shifts ? given : sorted + first,
                      .missing = shifts ? sorted + first : missing,
                      .place_of = op.place_of.ptr<std::uint32_t>(),
                      .numbers = op.numbers.ptr<std::uint32_t>(),
                      .marks = op.marks.ptr<std::uint32_t>(),
                      .places = given,
                      .leaving = op.leaving.ptr<std::uint32_t>(),
                      .coming = op.coming.ptr<std::uint32_t>(),
                      .shifts = shifts,
                      .report = op.report.ptr<std::int64_t>(),
                      .n = op.missing.size(),
                      .fresh_from = op.fresh_from,
                      .mark = CacheMark::pin(op.plan) | CacheMark::kTaken |
                              (op.train ? CacheMark::used(unused, now) : unused)});
    counts += 2 * all.count;
    first += op.missing.size();
    first_row += op.place_of.size() + 1;
  }
  const auto stretches_of = [](const Victims& v) { return v.all.count; };
  launch_many<Victims>(context, name, victims, dim3(kSelectThreads), &count_victims_kernel,
                       stretches_of);
  launch_many<Victims>(context, name, victims, dim3(kSelectThreads), &list_victims_kernel,
                       stretches_of);
  HCTR_TRY(cub::DeviceRadixSort::SortPairs(part<std::byte>(scratch, sort_at), sort_bytes, keys,
                                           sorted_keys, values, sorted, n, 0, bits,
                                           native_stream(context)));
  launch_many<Taking>(context, name, taking, dim3(kThreads), &take_kernel,
                      [](const Taking& t) { return grid_for(t.n, kThreads); });
}

void take(const OpContext& context, const char* name, std::span<const CacheTake> ops) {
  std::vector<CacheTake> together;
  std::uint64_t rows = 0;
  for (const CacheTake& op : ops) {
    if (op.missing.size() == 0) continue;
    const std::uint64_t own = op.place_of.size() + 1;
    if (rows + own > kMostSorted && !together.empty()) {
      take_together(context, name, together);
      together.clear();
      rows = 0;
    }
    together.push_back(op);
    rows += own;
  }
  if (!together.empty()) take_together(context, name, together);
}

void cache_take(const OpContext& context, const CacheTake& op) {
  take(context, CacheTake::kName, std::span(&op, 1));
}
void cache_takes(const OpContext& context, const Several<CacheTake>& several) {
  take(context, CacheTake::kSeveralName, several.ops);
}

const OpRegistration<CacheTake> cache_take_cuda{DeviceType::Cuda, &cache_take};
const SeveralRegistration<CacheTake> several_cache_take_cuda{DeviceType::Cuda, &cache_takes};

}  // namespace
}  // namespace hugectr::cuda
