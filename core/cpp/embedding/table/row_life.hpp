// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>
#include <string>

#include "core/cpp/ops/loops/row_score.hpp"

namespace hugectr {

/// Which rows make room when there are too many.
enum class Eviction {
  None,  ///< none: one row too many is an error
  Lru,   ///< those not used for longest
  Lfu,   ///< those used in the fewest steps, uses of long ago counting less
  Ttl,   ///< those not used for `ttl` steps, however many there are; then as Lru
};

/// How long the rows of a table live. All of it is of the whole job, whatever its devices.
struct RowLife {
  std::uint64_t max_rows = 0;  ///< 0: no bound. With an eviction it may be passed between two
  Eviction evict = Eviction::None;
  std::uint64_t ttl = 0;          ///< Ttl: steps; with a ttl_column seconds
  double decay = 1.0;             ///< Lfu: what counts of a use after each evict_every steps
  std::uint64_t evict_every = 0;  ///< steps whose number is a multiple of this evict behind them
  std::uint64_t admit_after = 1;  ///< steps that use a row before it trains, itself among them

  /// Ttl: the sparse input with the time of each sample, in seconds since 1970; "": there is none.
  /// A row's score then has the latest time of the samples that used it instead of a step.
  std::string ttl_column;

  bool timed() const { return !ttl_column.empty(); }
  /// Whether rows keep scores: 8 bytes each.
  bool keeps_scores() const { return evict != Eviction::None || admit_after > 1; }
  bool evicts_after(std::int64_t step) const {
    return keeps_scores() && step > 0 && static_cast<std::uint64_t>(step) % evict_every == 0;
  }
  UseRule use_rule() const {
    const bool fades = evict == Eviction::Lfu && decay < 1.0;
    return {admit_after, fades ? evict_every : 0,
            fades ? static_cast<std::uint64_t>(std::llround(decay * 0xFFFFFFFF)) : 0};
  }
  /// Rows that an eviction leaves: nine tenths.
  std::uint64_t rows_left() const { return max_rows - max_rows / 10; }
};

}  // namespace hugectr
