// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/loops/row_score.hpp"

namespace hugectr {

/// For i < count: scores[rows[i]] = used_score(scores[rows[i]], step) (row_score.hpp), of which
///   `timed` leaves the last use as NoteTimes set it;
///   candidates[i] = rows[i] where that row is not admitted then, else kNoRow;
///   admitted += rows that were not admitted before and are now.
///
/// rows (n) uint32, each once and below R, or kNoRow: passed over; count (1) int64; step (1) int64;
/// scores (R) uint64, in place; candidates (n) uint32 or empty, kNoRow from count on; admitted (1)
/// int64, in place. Deterministic.
struct HCTR_API ScoreRows {
  static constexpr const char* kName = "score_rows";
  TensorRef rows, count, step, scores, candidates, admitted;
  std::int64_t admit_after = 1;       ///< 1 .. 2^20
  std::int64_t period = 0, kept = 0;  ///< of UseRule; kept 0 .. 2^32 - 1
  bool timed = false;

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::In, rows);
    v.tensor("count", Access::In, count);
    v.tensor("step", Access::In, step);
    v.tensor("scores", Access::InOut, scores);
    v.optional("candidates", Access::Out, candidates);
    v.tensor("admitted", Access::InOut, admitted);
    v.attribute("admit_after", admit_after);
    v.attribute("period", period);
    v.attribute("kept", kept);
    v.attribute("timed", timed);
  }
  void check() const;
  UseRule rule() const {
    return {static_cast<std::uint64_t>(admit_after), static_cast<std::uint64_t>(period),
            static_cast<std::uint64_t>(kept)};
  }
};

/// scores[rows[i]] = 0; rows (n) uint32 below R. Overwrites. Deterministic.
struct HCTR_API ClearScores {
  static constexpr const char* kName = "clear_scores";
  TensorRef rows, scores;

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::In, rows);
    v.tensor("scores", Access::InOut, scores);
  }
  void check() const;
};

}  // namespace hugectr
