// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/loops/row_score.hpp"

/// When the rows of a table were used by a clock of the data: seconds since 1970, in the low 32
/// bits of their scores (row_score.hpp).
namespace hugectr {

/// The time that a key of a time column says: itself, or what none has where it is negative or
/// does not fit. Never 0, which says that no time is known: a key of 0, as who fills gaps writes
/// it, is a second later.
template <class Key>
HCTR_HD inline std::uint32_t time_of_key(Key key) {
  const auto time = static_cast<std::int64_t>(key);
  const auto last = static_cast<std::int64_t>(kLastScoredStep);
  if (time == 0) return 1;
  return static_cast<std::uint32_t>(time < 0 || time > last ? last : time);
}

/// times[i] := the latest of keys[row_offsets[i] .. row_offsets[i + 1]), 0 without any; one that is
/// 0 counts as 1, one that is negative or above 2^32 - 1 as 2^32 - 1. keys (n) uint32 or int64;
/// row_offsets (B + 1) uint32; times (B) uint32. Overwrites. Deterministic.
struct HCTR_API SampleTimes {
  static constexpr const char* kName = "sample_times";
  TensorRef keys, row_offsets, times;

  void visit(OpVisitor& v) {
    v.tensor("keys", Access::In, keys);
    v.tensor("row_offsets", Access::In, row_offsets);
    v.tensor("times", Access::Out, times);
  }
  void check() const;
};

/// For all k: last use of scores[rows[k]] = max(itself, times[buckets[k] / sample_buckets]).
/// rows (n) uint32 below R, or kNoRow: passed over; buckets (n) uint32; times (B) uint32; scores
/// (R) uint64, in place. Deterministic.
struct HCTR_API NoteTimes {
  static constexpr const char* kName = "note_times";
  TensorRef rows, buckets, times, scores;
  std::int64_t sample_buckets = 1;  ///< at least 1

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::In, rows);
    v.tensor("buckets", Access::In, buckets);
    v.tensor("times", Access::In, times);
    v.tensor("scores", Access::InOut, scores);
    v.attribute("sample_buckets", sample_buckets);
  }
  void check() const;
};

/// latest := the greatest last use in scores (R) uint64, 0 without any; latest (1) int64.
/// Overwrites. Deterministic.
struct HCTR_API LatestUse {
  static constexpr const char* kName = "latest_use";
  TensorRef scores, latest;

  void visit(OpVisitor& v) {
    v.tensor("scores", Access::In, scores);
    v.tensor("latest", Access::Out, latest);
  }
  void check() const;
};

}  // namespace hugectr
