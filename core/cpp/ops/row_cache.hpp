// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/op.hpp"

/// Places in device memory as a cache of rows (embedding/table/cached_rows.hpp). In all ops
///   place_of (R) uint32: of row r its place + 1, or 0
///   numbers (P) uint32: the row at a place;  marks (P) uint32: what is known of it (CacheMark)
///   report (CacheReport::kSize) int64: what the host and the next op are told
/// A plan has a bit of `pins`. All ops are deterministic: lists keep their order. What a plan runs
/// may be run for several tables at once (several.hpp).
namespace hugectr {

/// What a mark says of a place.
///   bits 0-11   use: count * 64 + freshness; plans that train raise them, time lowers them
///   bit 12      the row has changed since it was last home     bit 13   a row lies there
///   bits 16-31  pins
struct CacheMark {
  static constexpr std::uint32_t kUse = 0xfff, kChanged = 1u << 12, kTaken = 1u << 13;
  static constexpr int kFirstPin = 16, kPins = 16;
  static constexpr std::uint32_t kFresh = 63, kMostCounted = 62;
  /// Of evictable places: 0 is empty, then by use.
  static constexpr std::uint32_t kBins = (kMostCounted + 1) * (kFresh + 1) + 1;

  static HCTR_HD std::uint32_t pin(std::int64_t plan) { return 1u << (kFirstPin + plan); }
  static HCTR_HD std::uint32_t pins(std::uint32_t mark) { return mark >> kFirstPin; }
  /// Whether the row has to go home before its place is another's.
  static HCTR_HD bool leaves(std::uint32_t mark) { return (mark & kTaken) && (mark & kChanged); }
  /// How often the row was used lately, then how recently: what goes first has least.
  static HCTR_HD std::uint32_t bin(std::uint32_t mark) {
    return mark & kTaken ? (mark & kUse) + 1 : 0;
  }
  /// Of a place whose row a training plan uses.
  static HCTR_HD std::uint32_t used(std::uint32_t mark) {
    const std::uint32_t count = (mark & kUse) >> 6;
    const std::uint32_t next = count < kMostCounted ? count + 1 : kMostCounted;
    return (mark & ~kUse) | kChanged | next << 6 | kFresh;
  }
  /// One training plan later; counts are halved now and then.
  static HCTR_HD std::uint32_t aged(std::uint32_t mark, bool halves) {
    const std::uint32_t count = ((mark & kUse) >> 6) >> (halves ? 1 : 0);
    const std::uint32_t fresh = mark & 63;
    return (mark & ~kUse) | count << 6 | (fresh > 0 ? fresh - 1 : 0);
  }
};

struct CacheReport {
  enum : std::size_t {
    kRows,     ///< of the plan, each once
    kMissing,  ///< of them without a place; or places found by CacheChanged
    kFree,     ///< places that may be given up
    kBound,    ///< places of lower bins are given up, and of this one as many as are missing
    kBelow,    ///< of lower bins
    kSent,     ///< rows that went home so far, ever
    kFetched,  ///< rows that came from home so far, ever
    kSize
  };
};

/// Rows of a plan: those with a place get the pin and, where the plan trains, count as used; the
/// numbers of the others are listed in their order.
///   distinct (n) uint32, each once or kNoRow; count (1) int64: of them; missing (>= n) uint32
/// Reports kRows and kMissing.
struct HCTR_API CacheFind {
  static constexpr const char* kName = "cache_find";
  static constexpr const char* kSeveralName = "several_cache_find";
  TensorRef distinct, count, place_of, marks, missing, report;
  std::int64_t plan = 0;
  bool train = false;

  void visit(OpVisitor& v) {
    v.tensor("distinct", Access::In, distinct);
    v.tensor("count", Access::In, count);
    v.tensor("place_of", Access::In, place_of);
    v.tensor("marks", Access::InOut, marks);
    v.tensor("missing", Access::Out, missing);
    v.tensor("report", Access::InOut, report);
    v.attribute("plan", plan);
    v.attribute("train", train);
  }
  void check() const;
};

/// Pins of plans that are over (not in `live`, a bit a plan) go, marks age where a training plan
/// asks for it, and a bound of bins is found below which enough places may be given up for the
/// rows that report[kMissing] counts: the least bin with at least as many places in it and below.
/// Reports kFree, kBound, kBelow.
///   told (kSize) int64, may be empty: the whole report then, in memory of the host that the device
///   reaches, so that many tables' need no copies
struct HCTR_API CacheRank {
  static constexpr const char* kName = "cache_rank";
  static constexpr const char* kSeveralName = "several_cache_rank";
  TensorRef marks, report, told;
  std::int64_t live = 0;
  bool ages = false, halves = false;

  void visit(OpVisitor& v) {
    v.tensor("marks", Access::InOut, marks);
    v.tensor("report", Access::InOut, report);
    v.optional("told", Access::Out, told);
    v.attribute("live", live);
    v.attribute("ages", ages);
    v.attribute("halves", halves);
  }
  void check() const;
};

/// Gives places without a pin to missing rows: those below the bound, and of the bound the first
/// ones. Both ways over the link to the host ascend, so that it translates half as many addresses
/// anew (benchmarks/NOTES.md).
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
/// bound, below: as reported; at most as many are missing as there are places to give. Adds to
/// kSent and kFetched.
struct HCTR_API CacheTake {
  static constexpr const char* kName = "cache_take";
  static constexpr const char* kSeveralName = "several_cache_take";
  TensorRef missing, place_of, numbers, marks, places, leaving, coming, report, shifts;
  std::int64_t plan = 0, bound = 0, below = 0, fresh_from = 0;
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
