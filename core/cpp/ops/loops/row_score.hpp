// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/base/export.hpp"

/// What a table that may forget rows knows of each: its score, 64 bits that change when a step uses
/// the row and at no other time, so that what was saved of an unused row stays true.
///
///   bit 63       admitted: it trains, and counts as a row for good
///   bits 32..62  uses: steps that used it, in 1/256 of one; of an admitted row decayed
///   bits 0..31   the step of the last use; of a table with a time column the latest time of the
///                samples that used it, in seconds since 1970; 0: not known
///
/// All of it is integers: a score depends on the steps that used the row and on nothing else. A row
/// that was never used has 0.
namespace hugectr {

inline constexpr std::uint64_t kOneUse = 256;
inline constexpr std::uint64_t kMostUses = 0x7FFFFFFF;  ///< of 31 bits
inline constexpr std::uint64_t kLastScoredStep = 0xFFFFFFFF;

HCTR_HD inline bool score_admitted(std::uint64_t score) { return score >> 63 != 0; }
HCTR_HD inline std::uint64_t score_uses(std::uint64_t score) { return score >> 32 & kMostUses; }
HCTR_HD inline std::uint64_t score_step(std::uint64_t score) { return score & kLastScoredStep; }
HCTR_HD inline std::uint64_t make_score(bool admitted, std::uint64_t uses, std::uint64_t step) {
  return static_cast<std::uint64_t>(admitted) << 63 | uses << 32 | step;
}

/// How uses count and fade.
struct UseRule {
  std::uint64_t admit_after = 1;  ///< uses that admit a row
  std::uint64_t period = 0;       ///< steps, of 32 bits, after which uses fade once; 0: never
  std::uint64_t kept = 0;         ///< what is left of them then, in 2^-32
};

/// The uses of an admitted row as they count at a step: uses * kept^(periods begun since).
HCTR_HD inline std::uint64_t uses_at(std::uint64_t score, std::uint64_t step, const UseRule& rule) {
  std::uint64_t uses = score_uses(score);
  if (rule.period == 0) return uses;
  if (step > kLastScoredStep) step = kLastScoredStep;
  // Of 32 bits: a division of 64 is several times as long.
  const auto period = static_cast<std::uint32_t>(rule.period);
  const std::uint32_t now = static_cast<std::uint32_t>(step) / period;
  const std::uint32_t then = static_cast<std::uint32_t>(score_step(score)) / period;
  std::uint64_t power = rule.kept;
  for (std::uint32_t left = now > then ? now - then : 0; left > 0; left >>= 1) {
    if (left & 1) uses = uses * power >> 32;
    power = power * power >> 32;
  }
  return uses;
}

/// The score of a row that a step uses.
HCTR_HD inline std::uint64_t used_score(std::uint64_t score, std::uint64_t step,
                                        const UseRule& rule) {
  const bool was = score_admitted(score);
  std::uint64_t uses = (was ? uses_at(score, step, rule) : score_uses(score)) + kOneUse;
  if (uses > kMostUses) uses = kMostUses;
  if (step > kLastScoredStep) step = kLastScoredStep;
  return make_score(was || uses >= rule.admit_after * kOneUse, uses, step);
}

/// Which rows a table can do without: the order in which they go.
enum class RowRank : std::int64_t {
  Age,  ///< those not used for longest
  Lru,  ///< those that are not admitted, then as Age
  Lfu,  ///< those that are not admitted, then by uses, then as Age
};

/// A row's rank is four numbers, compared one after the other; the last two are its identity, so
/// that no two rows have the same.
enum RankWord : int { kRankUses, kRankStep, kRankSlot, kRankKey, kRankWords };
inline constexpr int kRankBits[kRankWords] = {32, 32, 32, 64};

HCTR_HD inline std::uint64_t rank_word(int word, RowRank rank, std::uint64_t score,
                                       std::uint64_t slot, std::uint64_t widened_key,
                                       std::uint64_t step, const UseRule& rule) {
  if (word == kRankStep) return score_step(score);
  if (word == kRankSlot) return slot;
  if (word == kRankKey) return widened_key;
  if (rank == RowRank::Age || !score_admitted(score)) return 0;
  return rank == RowRank::Lru ? 1 : 1 + uses_at(score, step, rule);
}

}  // namespace hugectr
