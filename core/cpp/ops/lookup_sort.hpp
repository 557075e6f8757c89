// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Groups the keys of a batch by row: a stable sort of (row, bucket) by row, so that the buckets
/// of a row stay in sample order.
///
///   run r = sorted_buckets[run_offsets[r] .. run_offsets[r + 1]) are the buckets of unique_rows[r]
///
/// rows (n), buckets (n) uint32, every row below row_count. sorted_buckets (n), unique_rows (n),
/// run_offsets (n + 1) uint32 of which run_count[0] (int64) are valid; unique rows ascend.
/// scratch (2 n) uint64. Overwrites; no overlap. Deterministic.
struct HCTR_API LookupSort {
  static constexpr const char* kName = "lookup_sort";
  static constexpr const char* kSeveralName = "several_lookup_sort";
  TensorRef rows, buckets, sorted_buckets, unique_rows, run_offsets, run_count, scratch;
  std::int64_t row_count = 0;

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::In, rows);
    v.tensor("buckets", Access::In, buckets);
    v.tensor("sorted_buckets", Access::Out, sorted_buckets);
    v.tensor("unique_rows", Access::Out, unique_rows);
    v.tensor("run_offsets", Access::Out, run_offsets);
    v.tensor("run_count", Access::Out, run_count);
    v.tensor("scratch", Access::Out, scratch);
    v.attribute("row_count", row_count);
  }
  void check() const;
};

}  // namespace hugectr
