// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/cpp/ops/row_cache.hpp"

namespace hugectr {

/// Which places of a cache each plan ranks, to choose what leaves: those that follow the last
/// plan's, round and round, at least `least` or a 128th of all, so that marks are settled in time
/// (CacheMark::kForgotten). Passing over tens of millions of places took longer than the moves, and
/// what is least used among 16 places is hardly used more than what is among all.
class PlaceRanking {
 public:
  explicit PlaceRanking(std::size_t least) : least_(least) {}

  /// A plan begins: what training plans are counted by goes on. `all`: it ranks all places.
  CacheRank next(std::size_t places, bool train, bool all) {
    if (train) now_ = (now_ + 1) & CacheMark::kTime;
    if (first_ >= places) first_ = 0;
    last_first_ = first_;
    CacheRank op;
    op.now = now_;
    op.first = static_cast<std::int64_t>(first_);
    op.least = static_cast<std::int64_t>(all ? places : least(places));
    return op;
  }
  /// It ranked so many.
  void passed(std::size_t ranked, std::size_t places) {
    if (places > 0) first_ = (last_first_ + ranked) % places;
  }
  bool ranks_all(std::size_t places) const { return places <= least(places); }

  std::int64_t now() const { return now_; }                                      ///< of marks
  std::int64_t first() const { return static_cast<std::int64_t>(last_first_); }  ///< of the plan

 private:
  static constexpr std::size_t kParts = 128;

  std::size_t least(std::size_t places) const { return std::max(least_, places / kParts); }

  const std::size_t least_;
  std::size_t first_ = 0, last_first_ = 0;
  std::uint32_t now_ = 0;
};

}  // namespace hugectr
