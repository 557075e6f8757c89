// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/row_cache.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kCacheGrain = std::size_t{1} << 14;  // entries of a thread's part

std::int64_t& reported(const TensorRef& report, std::size_t what) {
  return report.ptr<std::int64_t>()[what];
}

/// Calls emit(i, k) for every i < n that `selects`, k = 0, 1, ... in the order of i; returns how
/// many. `selects` is asked twice and may change what only it reads at its second time.
template <class Selects, class Emit>
std::size_t select_in_order(ThreadPool& pool, std::size_t n, const Selects& selects,
                            const Emit& emit) {
  const std::size_t pieces = (n + kCacheGrain - 1) / kCacheGrain;
  std::vector<std::size_t> first(pieces + 1, 0);
  parallel_for(pool, n, kCacheGrain, [&](std::size_t begin, std::size_t end) {
    std::size_t count = 0;
    for (std::size_t i = begin; i < end; ++i) count += selects(i);
    first[begin / kCacheGrain + 1] = count;
  });
  for (std::size_t p = 0; p < pieces; ++p) first[p + 1] += first[p];
  parallel_for(pool, n, kCacheGrain, [&](std::size_t begin, std::size_t end) {
    std::size_t at = first[begin / kCacheGrain];
    for (std::size_t i = begin; i < end; ++i) {
      if (selects(i)) emit(i, at++);
    }
  });
  return first[pieces];
}

void cache_find_kernel(const OpContext& context, const CacheFind& op) {
  const auto n = static_cast<std::size_t>(*op.count.ptr<std::int64_t>());
  const auto* rows = op.distinct.ptr<std::uint32_t>();
  const auto* place_of = op.place_of.ptr<std::uint32_t>();
  auto* marks = op.marks.ptr<std::uint32_t>();
  auto* missing = op.missing.ptr<std::uint32_t>();
  const std::uint32_t pin = CacheMark::pin(op.plan);
  const auto now = static_cast<std::uint32_t>(op.now);
  const std::size_t absent = select_in_order(
      *context.pool, n, [&](std::size_t i) { return rows[i] != kNoRow && place_of[rows[i]] == 0; },
      [&](std::size_t i, std::size_t k) { missing[k] = rows[i]; });
  std::vector<std::size_t> found((n + kCacheGrain - 1) / kCacheGrain, 0);
  parallel_for(*context.pool, n, kCacheGrain, [&](std::size_t begin, std::size_t end) {
    std::size_t count = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (rows[i] == kNoRow || place_of[rows[i]] == 0) continue;
      std::uint32_t& mark = marks[place_of[rows[i]] - 1];
      mark = (op.train ? CacheMark::used(mark, now) : mark) | pin;
      ++count;
    }
    found[begin / kCacheGrain] = count;
  });
  std::size_t there = 0;
  for (const std::size_t count : found) there += count;
  reported(op.report, CacheReport::kRows) = static_cast<std::int64_t>(there + absent);
  reported(op.report, CacheReport::kMissing) = static_cast<std::int64_t>(absent);
}

void cache_release_kernel(const OpContext& context, const CacheRelease& op) {
  const auto* places = op.places.ptr<std::uint32_t>();
  auto* marks = op.marks.ptr<std::uint32_t>();
  const std::uint32_t pin = CacheMark::pin(op.plan);
  parallel_for(*context.pool, op.places.size(), kCacheGrain,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t i = begin; i < end; ++i) marks[places[i]] &= ~pin;
               });
}

using Bins = std::array<std::uint32_t, CacheMark::kBins>;

/// Adds the i-th places from `first` on to the bins, begin <= i < end.
void rank_places(const OpContext& context, const CacheRank& op, std::size_t begin, std::size_t end,
                 std::vector<Bins>& parts) {
  const std::size_t places = op.marks.size(), first = static_cast<std::size_t>(op.first);
  auto* marks = op.marks.ptr<std::uint32_t>();
  const auto now = static_cast<std::uint32_t>(op.now);
  const auto keep = static_cast<std::uint32_t>(op.live) << CacheMark::kFirstPin |
                    ((1u << CacheMark::kFirstPin) - 1);
  parts.resize(std::max(parts.size(), (end - begin + kCacheGrain - 1) / kCacheGrain), Bins{});
  parallel_for(*context.pool, end - begin, kCacheGrain, [&](std::size_t from, std::size_t to) {
    Bins& bins = parts[from / kCacheGrain];
    for (std::size_t i = begin + from; i < begin + to; ++i) {
      std::uint32_t& mark = marks[nth_place(first, i, places)];
      mark = CacheMark::settled(mark & keep, now);
      if (CacheMark::pins(mark) == 0) ++bins[CacheMark::bin(mark, now)];
    }
  });
}

void find_bound(const CacheRank& op, const std::vector<Bins>& parts) {
  std::int64_t free = 0, below = 0, bound = CacheMark::kBins, under = 0;
  const std::int64_t missing = reported(op.report, CacheReport::kMissing);
  for (std::size_t b = 0; b < CacheMark::kBins; ++b) {
    for (const Bins& bins : parts) free += bins[b];
    if (bound == CacheMark::kBins && free >= missing) {
      bound = static_cast<std::int64_t>(b);
      below = under;
    }
    under = free;
  }
  reported(op.report, CacheReport::kFree) = free;
  reported(op.report, CacheReport::kBound) = bound;
  reported(op.report, CacheReport::kBelow) = bound == CacheMark::kBins ? free : below;
}

void cache_rank_kernel(const OpContext& context, const CacheRank& op) {
  const std::size_t places = op.marks.size();
  const auto missing = static_cast<std::size_t>(reported(op.report, CacheReport::kMissing));
  std::size_t ranked = places_ranked(missing, static_cast<std::size_t>(op.least), places);
  std::vector<Bins> parts;
  rank_places(context, op, 0, ranked, parts);
  find_bound(op, parts);
  if (reported(op.report, CacheReport::kBound) == CacheMark::kBins && ranked < places) {
    rank_places(context, op, ranked, places, parts);
    find_bound(op, parts);
    ranked = places;
  }
  reported(op.report, CacheReport::kRanked) = static_cast<std::int64_t>(ranked);
  if (op.told.empty()) return;
  std::copy_n(op.report.ptr<std::int64_t>(), CacheReport::kSize, op.told.ptr<std::int64_t>());
}

/// Values in the order of key_of(value); those that are alike stay as they are.
template <class KeyOf>
std::vector<std::uint32_t> sorted_by(const std::uint32_t* values, std::size_t n,
                                     const KeyOf& key_of) {
  // What it is sorted by, and the value's number in the list, in one: no two are alike.
  std::vector<std::uint64_t> keys(n);
  for (std::size_t i = 0; i < n; ++i) keys[i] = std::uint64_t{key_of(values[i])} << 32 | i;
  std::ranges::sort(keys);
  std::vector<std::uint32_t> sorted(n);
  for (std::size_t i = 0; i < n; ++i) sorted[i] = values[keys[i] & 0xffffffff];
  return sorted;
}

void cache_take_kernel(const OpContext& context, const CacheTake& op) {
  const std::size_t n = op.missing.size(), places = op.marks.size();
  const auto first = static_cast<std::size_t>(op.first);
  const auto ranked = static_cast<std::size_t>(op.ranked);
  const auto bound = static_cast<std::uint32_t>(op.bound), now = static_cast<std::uint32_t>(op.now);
  const auto below = static_cast<std::size_t>(op.below);
  const auto* missing = op.missing.ptr<std::uint32_t>();
  auto* place_of = op.place_of.ptr<std::uint32_t>();
  auto* numbers = op.numbers.ptr<std::uint32_t>();
  auto* marks = op.marks.ptr<std::uint32_t>();
  auto* given = op.places.ptr<std::uint32_t>();
  const auto place = [&](std::size_t i) { return nth_place(first, i, places); };
  const auto in = [&](std::size_t i, auto&& test) {
    const std::uint32_t mark = marks[place(i)];
    return CacheMark::pins(mark) == 0 && test(CacheMark::bin(mark, now));
  };
  select_in_order(
      *context.pool, ranked,
      [&](std::size_t i) { return in(i, [&](std::uint32_t bin) { return bin < bound; }); },
      [&](std::size_t i, std::size_t k) { given[k] = static_cast<std::uint32_t>(place(i)); });
  select_in_order(
      *context.pool, ranked,
      [&](std::size_t i) { return in(i, [&](std::uint32_t bin) { return bin == bound; }); },
      [&](std::size_t i, std::size_t k) {
        if (below + k < n) given[below + k] = static_cast<std::uint32_t>(place(i));
      });
  auto* leaving = op.leaving.ptr<std::uint32_t>();
  auto* coming = op.coming.ptr<std::uint32_t>();
  auto* shifts = op.shifts.empty() ? nullptr : op.shifts.ptr<std::uint32_t>();
  const auto home_of = [&](std::uint32_t row) { return shifts ? row + shifts[row] : row; };
  std::vector<std::uint32_t> rows(missing, missing + n);
  if (shifts) {
    rows = sorted_by(missing, n, home_of);
  } else {
    std::ranges::copy(sorted_by(given, n,
                                [&](std::uint32_t place) {
                                  return CacheMark::leaves(marks[place]) ? numbers[place] : kNoRow;
                                }),
                      given);
  }
  const std::size_t pieces = (n + kCacheGrain - 1) / kCacheGrain;
  std::vector<std::int64_t> sent(pieces, 0), fetched(pieces, 0);
  parallel_for(*context.pool, n, kCacheGrain, [&](std::size_t begin, std::size_t end) {
    std::int64_t goes = 0, comes = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t place = given[i], row = rows[i], mark = marks[place];
      const std::uint32_t old = numbers[place], home = home_of(row);
      const bool leaves = CacheMark::leaves(mark), swaps = shifts && leaves;
      leaving[i] = leaves ? (swaps ? home : old) : kNoRow;
      coming[i] = static_cast<std::int64_t>(row) < op.fresh_from ? home : kNoRow;
      goes += leaves, comes += coming[i] != kNoRow;
      if (mark & CacheMark::kTaken) place_of[old] = 0;
      if (swaps) {
        shifts[row] = home_of(old) - row;
        shifts[old] = home - old;
      }
      place_of[row] = place + 1;
      numbers[place] = row;
      const std::uint32_t use =
          op.train ? CacheMark::used(CacheMark::unused(0, now), now) : CacheMark::unused(0, now);
      marks[place] =
          CacheMark::pin(op.plan) | CacheMark::kTaken | use | (swaps ? CacheMark::kChanged : 0);
    }
    sent[begin / kCacheGrain] = goes, fetched[begin / kCacheGrain] = comes;
  });
  for (const std::int64_t count : sent) reported(op.report, CacheReport::kSent) += count;
  for (const std::int64_t count : fetched) reported(op.report, CacheReport::kFetched) += count;
}

void cache_places_kernel(const OpContext& context, const CachePlaces& op) {
  const auto n =
      op.count.empty() ? op.rows.size() : static_cast<std::size_t>(*op.count.ptr<std::int64_t>());
  const auto* rows = op.rows.ptr<std::uint32_t>();
  const auto* place_of = op.place_of.ptr<std::uint32_t>();
  auto* places = op.places.ptr<std::uint32_t>();
  parallel_for(*context.pool, n, kCacheGrain, [&](std::size_t begin, std::size_t end) {
    // 0, which says that there is no place, becomes kNoRow.
    for (std::size_t i = begin; i < end; ++i) {
      places[i] = rows[i] == kNoRow ? kNoRow : place_of[rows[i]] - 1;
    }
  });
}

void cache_homes_kernel(const OpContext& context, const CacheHomes& op) {
  auto* rows = op.rows.ptr<std::uint32_t>();
  const auto* shifts = op.shifts.ptr<std::uint32_t>();
  parallel_for(*context.pool, op.rows.size(), kCacheGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (rows[i] != kNoRow) rows[i] += shifts[rows[i]];
    }
  });
}

void cache_changed_kernel(const OpContext& context, const CacheChanged& op) {
  const auto* numbers = op.numbers.ptr<std::uint32_t>();
  auto* marks = op.marks.ptr<std::uint32_t>();
  auto* places = op.places.ptr<std::uint32_t>();
  auto* rows = op.rows.ptr<std::uint32_t>();
  const auto changing = static_cast<std::uint32_t>(op.changing);
  const std::size_t found = select_in_order(
      *context.pool, op.marks.size(),
      [&](std::size_t p) {
        return (marks[p] & CacheMark::kTaken) && (op.all || (marks[p] & CacheMark::kChanged));
      },
      [&](std::size_t p, std::size_t k) {
        places[k] = static_cast<std::uint32_t>(p);
        rows[k] = numbers[p];
        if ((CacheMark::pins(marks[p]) & changing) == 0) marks[p] &= ~CacheMark::kChanged;
      });
  reported(op.report, CacheReport::kMissing) = static_cast<std::int64_t>(found);
}

const OpRegistration<CacheFind> cache_find_cpu{DeviceType::Cpu, &cache_find_kernel};
const SeveralRegistration<CacheFind> several_cache_find_cpu{DeviceType::Cpu};
const OpRegistration<CacheRelease> cache_release_cpu{DeviceType::Cpu, &cache_release_kernel};
const SeveralRegistration<CacheRelease> several_cache_release_cpu{DeviceType::Cpu};
const OpRegistration<CacheRank> cache_rank_cpu{DeviceType::Cpu, &cache_rank_kernel};
const SeveralRegistration<CacheRank> several_cache_rank_cpu{DeviceType::Cpu};
const OpRegistration<CacheTake> cache_take_cpu{DeviceType::Cpu, &cache_take_kernel};
const SeveralRegistration<CacheTake> several_cache_take_cpu{DeviceType::Cpu};
const OpRegistration<CachePlaces> cache_places_cpu{DeviceType::Cpu, &cache_places_kernel};
const SeveralRegistration<CachePlaces> several_cache_places_cpu{DeviceType::Cpu};
const OpRegistration<CacheHomes> cache_homes_cpu{DeviceType::Cpu, &cache_homes_kernel};
const OpRegistration<CacheChanged> cache_changed_cpu{DeviceType::Cpu, &cache_changed_kernel};

constexpr auto kU32 = TensorScalarType::UInt32;

void check_report(const char* op, const TensorRef& report) {
  check_array(op, "report", report, TensorScalarType::Int64, CacheReport::kSize);
}

void check_plan(const char* op, std::int64_t plan) {
  HCTR_CHECK(plan >= 0 && plan < CacheMark::kPins, op, ": plan ", plan, " is not one of 0 to ",
             CacheMark::kPins - 1);
}

void check_first(const char* op, std::int64_t first, std::size_t places) {
  HCTR_CHECK(first >= 0 && static_cast<std::size_t>(first) <= places, op, ": first ", first,
             " is none of ", places, " places");
}

}  // namespace

void CacheFind::check() const {
  check_array(kName, "distinct", distinct, kU32, distinct.size());
  check_array(kName, "count", count, TensorScalarType::Int64, 1);
  check_array(kName, "place_of", place_of, kU32, place_of.size());
  check_array(kName, "marks", marks, kU32, marks.size());
  check_array_at_least(kName, "missing", missing, kU32, distinct.size());
  check_report(kName, report);
  check_plan(kName, plan);
}

void CacheRelease::check() const {
  check_array(kName, "places", places, kU32, places.size());
  check_array(kName, "marks", marks, kU32, marks.size());
  check_plan(kName, plan);
}

void CacheRank::check() const {
  check_array(kName, "marks", marks, kU32, marks.size());
  check_report(kName, report);
  if (!told.empty()) check_array(kName, "told", told, TensorScalarType::Int64, CacheReport::kSize);
  HCTR_CHECK(live >= 0 && live < 1 << CacheMark::kPins, kName, ": live ", live,
             " has bits of no plan");
  check_first(kName, first, marks.size());
  HCTR_CHECK(now >= 0 && least >= 0, kName, ": now ", now, " or least ", least, " is below 0");
}

void CacheTake::check() const {
  const std::size_t n = missing.size(), places_there = marks.size();
  check_array(kName, "missing", missing, kU32, n);
  check_array(kName, "place_of", place_of, kU32, place_of.size());
  check_array(kName, "numbers", numbers, kU32, places_there);
  check_array(kName, "marks", marks, kU32, places_there);
  check_array_at_least(kName, "places", places, kU32, n);
  check_array_at_least(kName, "leaving", leaving, kU32, n);
  check_array_at_least(kName, "coming", coming, kU32, n);
  check_report(kName, report);
  if (!shifts.empty()) check_array(kName, "shifts", shifts, kU32, place_of.size());
  check_plan(kName, plan);
  HCTR_CHECK(n <= places_there, kName, ": ", n, " rows are missing and there are ", places_there,
             " places");
  HCTR_CHECK(
      bound >= 0 && bound < CacheMark::kBins && below >= 0 && static_cast<std::size_t>(below) <= n,
      kName, ": bound ", bound, " and ", below, " places below it do not go with ", n,
      " missing rows");
  check_first(kName, first, places_there);
  HCTR_CHECK(now >= 0 && ranked >= 0 && static_cast<std::size_t>(ranked) <= places_there, kName,
             ": of ", places_there, " places ", ranked, " are not ranked at time ", now);
}

void CachePlaces::check() const {
  check_array(kName, "rows", rows, kU32, rows.size());
  if (!count.empty()) check_array(kName, "count", count, TensorScalarType::Int64, 1);
  check_array(kName, "place_of", place_of, kU32, place_of.size());
  check_array_at_least(kName, "places", places, kU32, rows.size());
}

void CacheHomes::check() const {
  check_array(kName, "rows", rows, kU32, rows.size());
  check_array(kName, "shifts", shifts, kU32, shifts.size());
}

void CacheChanged::check() const {
  check_array(kName, "numbers", numbers, kU32, marks.size());
  check_array(kName, "marks", marks, kU32, marks.size());
  check_array_at_least(kName, "places", places, kU32, marks.size());
  check_array_at_least(kName, "rows", rows, kU32, marks.size());
  check_report(kName, report);
}

}  // namespace hugectr
