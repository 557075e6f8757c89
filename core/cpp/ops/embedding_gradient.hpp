// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Gradients of a batch's rows (runs: lookup_sort.hpp), to be sent to the rows' owners:
///   sums[r] = factor * sum over run r of scale[bucket] * gradient[bucket],
///             run r = sorted_buckets[run_offsets[r] .. run_offsets[r + 1])
///
/// sorted_buckets (>= n), run_offsets (>= U + 1) uint32, no run is empty; gradient (B, S, d), any
/// row_stride, d <= 1024; scale (B*S) float32 or empty (1); sums (U, d) packed. gradient and sums
/// each float32, float16 or bfloat16: summed in float32 in the order of embedding_update, which
/// depends on a run's length only, rounded once. Overwrites; U = 0 does nothing. Deterministic.
struct HCTR_API EmbeddingGradient {
  static constexpr const char* kName = "embedding_gradient";
  static constexpr const char* kSeveralName = "several_embedding_gradient";
  static constexpr std::string_view k16BitFields = "gradient sums";
  TensorRef sorted_buckets, run_offsets, gradient, scale, sums;
  double factor = 1.0;

  void visit(OpVisitor& v) {
    v.tensor("sorted_buckets", Access::In, sorted_buckets);
    v.tensor("run_offsets", Access::In, run_offsets);
    v.tensor("gradient", Access::In, gradient);
    v.optional("scale", Access::In, scale);
    v.tensor("sums", Access::Out, sums);
    v.attribute("factor", factor);
  }
  void check() const;
};

}  // namespace hugectr
