// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// What the mean combiner multiplies a bucket's sum and its gradient with:
///   scale[bucket] = 1 / max(1, row_offsets[bucket + 1] - row_offsets[bucket])
/// row_offsets (m + 1) uint32 of the FULL buckets, before any filter; scale (m) float32.
/// Overwrites. Deterministic.
struct HCTR_API BucketScale {
  static constexpr const char* kName = "bucket_scale";
  static constexpr const char* kSeveralName = "several_bucket_scale";
  TensorRef row_offsets, scale;

  void visit(OpVisitor& v) {
    v.tensor("row_offsets", Access::In, row_offsets);
    v.tensor("scale", Access::Out, scale);
  }
  void check() const;
};

}  // namespace hugectr
