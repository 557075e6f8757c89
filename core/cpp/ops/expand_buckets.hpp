// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// buckets[i] = the bucket that key i lies in: row_offsets[bucket] <= i < row_offsets[bucket + 1].
/// row_offsets (m + 1) uint32, last entry n; buckets (n) uint32. Overwrites. Deterministic.
struct HCTR_API ExpandBuckets {
  static constexpr const char* kName = "expand_buckets";
  static constexpr const char* kSeveralName = "several_expand_buckets";
  TensorRef row_offsets, buckets;

  void visit(OpVisitor& v) {
    v.tensor("row_offsets", Access::In, row_offsets);
    v.tensor("buckets", Access::Out, buckets);
  }
  void check() const;
};

}  // namespace hugectr
