// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/loops/row_score.hpp"

/// Which rows of a table go first (RowRank, row_score.hpp). Fields of both ops:
///   scores (R) uint64; row_keys (R) uint32 or int64, rows with the reserved key are none;
///   row_slots (R) uint32 or empty: 0
///   rank, step, period, kept: what ranks are made of
///   bound: the words of a rank, as bit patterns of uint64
namespace hugectr {

inline constexpr int kRankDigitBits = 11;
inline constexpr std::size_t kRankDigits = std::size_t{1} << kRankDigitBits;

/// counts[digit] := rows whose words before `word` equal the bound's, whose bits of `word` above
/// the digit's equal the bound's too, and whose digit, bits [shift, shift + 11) of it, is that.
/// counts (2048) int64. Overwrites. Deterministic.
struct HCTR_API CountRanks {
  static constexpr const char* kName = "count_ranks";
  TensorRef scores, row_keys, row_slots, counts;
  std::int64_t rank = 0, step = 0, period = 0, kept = 0, word = 0, shift = 0;
  std::vector<std::int64_t> bound{0, 0, 0, 0};

  void visit(OpVisitor& v) {
    v.tensor("scores", Access::In, scores);
    v.tensor("row_keys", Access::In, row_keys);
    v.optional("row_slots", Access::In, row_slots);
    v.tensor("counts", Access::Out, counts);
    v.attribute("rank", rank);
    v.attribute("step", step);
    v.attribute("period", period);
    v.attribute("kept", kept);
    v.attribute("word", word);
    v.attribute("shift", shift);
    v.attribute("bound", bound);
  }
  void check() const;
};

/// rows := numbers of the rows whose rank is not above the bound, only of those that are not
/// admitted where `candidates`, of those with its uses and step where `ties`, of those whose last
/// use is not 0 where `dated`, in any order; count
/// := how many. rows (>= count) uint32, or empty: they are only counted; count (1) int64.
/// Overwrites. As a set deterministic.
struct HCTR_API TakeRanked {
  static constexpr const char* kName = "take_ranked";
  TensorRef scores, row_keys, row_slots, rows, count;
  std::int64_t rank = 0, step = 0, period = 0, kept = 0;
  bool candidates = false, ties = false, dated = false;
  std::vector<std::int64_t> bound{0, 0, 0, 0};

  void visit(OpVisitor& v) {
    v.tensor("scores", Access::In, scores);
    v.tensor("row_keys", Access::In, row_keys);
    v.optional("row_slots", Access::In, row_slots);
    v.optional("rows", Access::Out, rows);
    v.tensor("count", Access::Out, count);
    v.attribute("rank", rank);
    v.attribute("step", step);
    v.attribute("period", period);
    v.attribute("kept", kept);
    v.attribute("candidates", candidates);
    v.attribute("ties", ties);
    v.attribute("dated", dated);
    v.attribute("bound", bound);
  }
  void check() const;
};

/// One row as both ops look at it; of either device.
template <class Key>
struct RankedRows {
  const std::uint64_t* scores;
  const Key* keys;
  const std::uint32_t* slots;  ///< null: 0
  RowRank rank;
  std::uint64_t step;
  UseRule rule;
  std::uint64_t bound[kRankWords];

  template <class Op>
  explicit RankedRows(const Op& op)
      : scores(op.scores.template ptr<std::uint64_t>()),
        keys(op.row_keys.template ptr<Key>()),
        slots(op.row_slots.empty() ? nullptr : op.row_slots.template ptr<std::uint32_t>()),
        rank(static_cast<RowRank>(op.rank)),
        step(static_cast<std::uint64_t>(op.step)),
        rule{1, static_cast<std::uint64_t>(op.period), static_cast<std::uint64_t>(op.kept)} {
    for (int w = 0; w < kRankWords; ++w) {
      bound[w] = static_cast<std::uint64_t>(op.bound[static_cast<std::size_t>(w)]);
    }
  }

  HCTR_HD std::uint64_t word(int w, std::size_t row) const {
    return rank_word(w, rank, scores[row], slots ? slots[row] : 0, widen_key(keys[row]), step,
                     rule);
  }
  /// The digit of a row that agrees with the bound above it, or -1.
  HCTR_HD int digit(int w, int shift, std::size_t row) const {
    for (int before = 0; before < w; ++before) {
      if (word(before, row) != bound[before]) return -1;
    }
    const std::uint64_t value = word(w, row);
    const int above = shift + kRankDigitBits;
    if (above < 64 && value >> above != bound[w] >> above) return -1;
    return static_cast<int>(value >> shift & (kRankDigits - 1));
  }
  /// Whether TakeRanked takes a row.
  HCTR_HD bool taken(std::size_t row, bool candidates, bool ties, bool dated) const {
    if (keys[row] == kEmptyKey<Key> || (candidates && score_admitted(scores[row])) ||
        (dated && score_step(scores[row]) == 0)) {
      return false;
    }
    if (ties &&
        (word(kRankUses, row) != bound[kRankUses] || word(kRankStep, row) != bound[kRankStep])) {
      return false;
    }
    return within(row);
  }

 private:
  HCTR_HD bool within(std::size_t row) const {
    for (int w = 0; w < kRankWords; ++w) {
      const std::uint64_t value = word(w, row);
      if (value != bound[w]) return value < bound[w];
    }
    return true;
  }
};

}  // namespace hugectr
