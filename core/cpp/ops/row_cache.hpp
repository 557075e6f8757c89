// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/op.hpp"

/// Places in device memory as a cache of rows (embedding/table/cached_rows.hpp). In all ops
///   place_of (R) uint32: of row r its place + 1, or 0
///   numbers (P) uint32: the row at a place;  marks (P) uint32: what is known of it (CacheMark)
///   report (CacheReport::kSize) int64: what the host and the next op are told
/// A plan has a bit of `pins`. Time is counted in training plans: `now` is the number of the last
/// one. All ops are deterministic: lists keep their order. What a plan runs may be run for several
/// tables at once (several.hpp).
namespace hugectr {

/// What a mark says of a place. Nothing is written as time goes by: a count is of its time, and who
/// reads it halves it for each multiple of kTimeToHalve between that time and now.
///   bits 0-5    how many training plans used the row, of which time     bits 6-16  that time
///   bit 17      the row has changed since it was last home              bit 18     a row lies
///   there bits 19-31  pins
struct CacheMark {
  static constexpr std::uint32_t kCount = 0x3f, kTime = 0x7ff, kChanged = 1u << 17;
  static constexpr std::uint32_t kTaken = 1u << 18;
  static constexpr int kFirstTime = 6, kFirstPin = 19, kPins = 13;
  static constexpr std::uint32_t kFresh = 63, kMostCounted = 62;
  /// Rows that one plan in a hundred uses are told apart from those that came once.
  static constexpr std::uint32_t kTimeToHalve = 128;
  static constexpr std::uint32_t kHalvings = (kTime + 1) / kTimeToHalve;
  /// An age at which nothing of a count is left. Times come round: each place must be settled()
  /// before kTime - kForgotten training plans have gone by.
  static constexpr std::uint32_t kForgotten = 7 * kTimeToHalve;
  /// Of evictable places: 0 is empty, then by use.
  static constexpr std::uint32_t kBins = (kMostCounted + 1) * (kFresh + 1) + 1;

  static HCTR_HD std::uint32_t pin(std::int64_t plan) { return 1u << (kFirstPin + plan); }
  static HCTR_HD std::uint32_t pins(std::uint32_t mark) { return mark >> kFirstPin; }
  /// Whether the row has to go home before its place is another's.
  static HCTR_HD bool leaves(std::uint32_t mark) { return (mark & kTaken) && (mark & kChanged); }
  static HCTR_HD std::uint32_t age(std::uint32_t mark, std::uint32_t now) {
    return (now - (mark >> kFirstTime)) & kTime;
  }
  static HCTR_HD std::uint32_t count(std::uint32_t mark, std::uint32_t now) {
    const std::uint32_t then = (mark >> kFirstTime) & kTime;
    const std::uint32_t halves = ((now & kTime) / kTimeToHalve - then / kTimeToHalve) % kHalvings;
    return (mark & kCount) >> halves;
  }
  /// How often the row was used lately, then how recently: what goes first has least.
  static HCTR_HD std::uint32_t bin(std::uint32_t mark, std::uint32_t now) {
    if (!(mark & kTaken)) return 0;
    const std::uint32_t old = age(mark, now);
    return count(mark, now) * (kFresh + 1) + (old < kFresh ? kFresh - old : 0) + 1;
  }
  static HCTR_HD std::uint32_t with(std::uint32_t mark, std::uint32_t count, std::uint32_t time) {
    return (mark & ~(kTime << kFirstTime | kCount)) | (time & kTime) << kFirstTime | count;
  }
  /// Of a place whose row the training plan of now uses.
  static HCTR_HD std::uint32_t used(std::uint32_t mark, std::uint32_t now) {
    const std::uint32_t before = count(mark, now);
    return with(mark, before < kMostCounted ? before + 1 : kMostCounted, now) | kChanged;
  }
  /// Of a place whose row no training plan has used.
  static HCTR_HD std::uint32_t unused(std::uint32_t mark, std::uint32_t now) {
    return with(mark, 0, now - kForgotten);
  }
  /// The same mark, whose time does not come round.
  static HCTR_HD std::uint32_t settled(std::uint32_t mark, std::uint32_t now) {
    return age(mark, now) > kForgotten ? unused(mark, now) : mark;
  }
};

struct CacheReport {
  enum : std::size_t {
    kRows,     ///< of the plan, each once
    kMissing,  ///< of them without a place; or places found by CacheChanged
    kFree,     ///< places that may be given up
    kBound,    ///< places of lower bins are given up, and of this one as many as are missing
    kBelow,    ///< of lower bins
    kRanked,   ///< places among which was chosen
    kSent,     ///< rows that went home so far, ever
    kFetched,  ///< rows that came from home so far, ever
    kSize
  };
};

/// Rows of a plan: those with a place get the pin and, where the plan trains, count as used; the
/// numbers of the others are listed in their order.
///   distinct (n) uint32, each once or kNoRow; count (1) int64: of them; missing (>= n) uint32
///   now: number of this plan where it trains
/// Reports kRows and kMissing.
struct HCTR_API CacheFind {
  static constexpr const char* kName = "cache_find";
  static constexpr const char* kSeveralName = "several_cache_find";
  TensorRef distinct, count, place_of, marks, missing, report;
  std::int64_t plan = 0, now = 0;
  bool train = false;

  void visit(OpVisitor& v) {
    v.tensor("distinct", Access::In, distinct);
    v.tensor("count", Access::In, count);
    v.tensor("place_of", Access::In, place_of);
    v.tensor("marks", Access::InOut, marks);
    v.tensor("missing", Access::Out, missing);
    v.tensor("report", Access::InOut, report);
    v.attribute("plan", plan);
    v.attribute("now", now);
    v.attribute("train", train);
  }
  void check() const;
};

/// A plan is over: its pin goes from the places that held its rows.
///   places (n) uint32, each once
/// The only op of these that may be run at once with others of its table, but of its own kind: bits
/// go, in any order.
struct HCTR_API CacheRelease {
  static constexpr const char* kName = "cache_release";
  static constexpr const char* kSeveralName = "several_cache_release";
  TensorRef places, marks;
  std::int64_t plan = 0;

  void visit(OpVisitor& v) {
    v.tensor("places", Access::In, places);
    v.tensor("marks", Access::InOut, marks);
    v.attribute("plan", plan);
  }
  void check() const;
};

/// How many places are ranked: many for each one that is given up, so that what goes is among the
/// least used, and at least `least`.
HCTR_HD inline std::size_t places_ranked(std::size_t missing, std::size_t least,
                                         std::size_t places) {
  constexpr std::size_t kOfOne = 16;
  const std::size_t wanted = missing > least / kOfOne ? missing * kOfOne : least;
  return wanted < places ? wanted : places;
}
/// The i-th from `first` on, i < places.
HCTR_HD inline std::size_t nth_place(std::size_t first, std::size_t i, std::size_t places) {
  const std::size_t p = first + i;
  return p < places ? p : p - places;
}

/// Finds a bound of bins below which enough places may be given up for the rows that
/// report[kMissing] counts: the least bin with at least as many places in it and below, among
/// places_ranked() from `first` on (the last is followed by place 0), or among all where those are
/// not enough. There pins of plans that are over (not in `live`, a bit a plan) go, and marks are
/// settled. Reports kFree, kBound, kBelow of these, and kRanked.
///   told (kSize) int64, may be empty: the whole report then, in memory of the host that the device
///   reaches, so that many tables' need no copies
struct HCTR_API CacheRank {
  static constexpr const char* kName = "cache_rank";
  static constexpr const char* kSeveralName = "several_cache_rank";
  TensorRef marks, report, told;
  std::int64_t live = 0, now = 0, first = 0, least = 0;

  void visit(OpVisitor& v) {
    v.tensor("marks", Access::InOut, marks);
    v.tensor("report", Access::InOut, report);
    v.optional("told", Access::Out, told);
    v.attribute("live", live);
    v.attribute("now", now);
    v.attribute("first", first);
    v.attribute("least", least);
  }
  void check() const;
};

/// Gives places without a pin to missing rows: of those ranked, from `first` on, those below the
/// bound, and of the bound the first ones. Both ways over the link to the host ascend, so that it
/// translates half as many addresses anew (benchmarks/NOTES.md).
///   missing (n): rows;  places (n): given to them;  leaving (n): where at home the row goes that
///   lies there and has changed, or kNoRow;  coming (n): where at home the missing row is, kNoRow
///   for those from fresh_from on
///   shifts (R) uint32, may be empty: row r is at home at r + shifts[r], modulo 2^32
/// Without shifts a row is at home at its number. Missing rows come in that order, and places are
/// given in the order of the rows that leave them, the others last.
/// With shifts a row that leaves and the one that comes in its stead swap homes: one address is
/// read and written. The one that comes has changed from then on, since it is at home nowhere.
/// Missing rows come in the order of their homes, places are given in that of bins and places.
/// Rows that lie at home as they are go nowhere and swap nothing.
/// bound, below, ranked: as reported; at most as many are missing as there are places to give. Adds
/// to kSent and kFetched.
struct HCTR_API CacheTake {
  static constexpr const char* kName = "cache_take";
  static constexpr const char* kSeveralName = "several_cache_take";
  TensorRef missing, place_of, numbers, marks, places, leaving, coming, report, shifts;
  std::int64_t plan = 0, now = 0, first = 0, ranked = 0, bound = 0, below = 0, fresh_from = 0;
  bool train = false;

  void visit(OpVisitor& v) {
    v.tensor("missing", Access::In, missing);
    v.tensor("place_of", Access::InOut, place_of);
    v.tensor("numbers", Access::InOut, numbers);
    v.tensor("marks", Access::InOut, marks);
    v.tensor("places", Access::Out, places);
    v.tensor("leaving", Access::Out, leaving);
    v.tensor("coming", Access::Out, coming);
    v.tensor("report", Access::InOut, report);
    v.optional("shifts", Access::InOut, shifts);
    v.attribute("plan", plan);
    v.attribute("now", now);
    v.attribute("first", first);
    v.attribute("ranked", ranked);
    v.attribute("bound", bound);
    v.attribute("below", below);
    v.attribute("fresh_from", fresh_from);
    v.attribute("train", train);
  }
  void check() const;
};

/// places[i] = place of rows[i], kNoRow for kNoRow and for rows without a place.
/// rows (n) uint32 below R; places (>= n) uint32; count (1) int64, empty: all n.
struct HCTR_API CachePlaces {
  static constexpr const char* kName = "cache_places";
  static constexpr const char* kSeveralName = "several_cache_places";
  TensorRef rows, count, place_of, places;

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::In, rows);
    v.optional("count", Access::In, count);
    v.tensor("place_of", Access::In, place_of);
    v.tensor("places", Access::Out, places);
  }
  void check() const;
};

/// rows[i] becomes where that row is at home, rows[i] + shifts[rows[i]] modulo 2^32; kNoRow stays.
///   rows (n) uint32 below R or kNoRow; shifts (R) uint32
struct HCTR_API CacheHomes {
  static constexpr const char* kName = "cache_homes";
  TensorRef rows, shifts;

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::InOut, rows);
    v.tensor("shifts", Access::In, shifts);
  }
  void check() const;
};

/// Places whose rows have changed, or all that are taken, in their order.
///   places (>= P), rows (>= P): of them;  report[kMissing]: how many
/// Those that changed have not any more, but for places with a pin of `changing` (a bit a plan).
struct HCTR_API CacheChanged {
  static constexpr const char* kName = "cache_changed";
  TensorRef numbers, marks, places, rows, report;
  std::int64_t changing = 0;
  bool all = false;

  void visit(OpVisitor& v) {
    v.tensor("numbers", Access::In, numbers);
    v.tensor("marks", Access::InOut, marks);
    v.tensor("places", Access::Out, places);
    v.tensor("rows", Access::Out, rows);
    v.tensor("report", Access::InOut, report);
    v.attribute("changing", changing);
    v.attribute("all", all);
  }
  void check() const;
};

}  // namespace hugectr
