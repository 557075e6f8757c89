// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/loops/row_rounding.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

namespace hugectr {

/// Backward and optimizer of a table in one pass over the rows of a batch (runs: lookup_sort.hpp):
///   g = unscale * sum over the run of scale[bucket] * gradient[bucket];
///   what Adjustment says (core/cpp/optimizers/adjustment.hpp);  rule(weights, g)
///
/// sorted_buckets, unique_rows, run_offsets uint32, run_count (1) int64; gradient (B, S, d)
/// float32, float16 or bfloat16, any row_stride, summed in float32; scale (B*S) or empty; weights
/// (R, d) and states (R, d) or (R, 1) float32, as state_widths() says, in place; last_step (R)
/// int64 only for rules that keep it; lr (1) float32, step (1) int64, the first update is 1.
/// unscale (1) float32, 1 when absent; 0 skips the step: weights, states and last_step stay as they
/// are, whatever the gradient holds. A run is summed in chunks of 64 and those pairwise: the order
/// depends on its length only. Rules: core/cpp/optimizers. Deterministic.
///
/// Weights may be bfloat16: the rule has them widened and its results are rounded once, by
/// `rounding` (of unique_rows[i] the i-th number), to
///   round_stochastically(w[c], 16 bits of rounding_bits(step_stream(row, step), column c))
///
/// longest_run: no run has more buckets, as the caller knows; 0: nobody knows. It spares kernels
/// for long runs, and changes no result.
struct HCTR_API EmbeddingUpdate {
  static constexpr const char* kName = "embedding_update";
  static constexpr const char* kSeveralName = "several_embedding_update";
  static constexpr std::string_view k16BitFields = "gradient";
  static constexpr std::string_view kBFloat16OnCpu = "weights";
  TensorRef sorted_buckets, unique_rows, run_offsets, run_count, gradient, scale, weights,
      last_step, lr, step, unscale;
  std::vector<TensorRef> states;
  RowRounding rounding;
  OptParams params;
  std::int64_t longest_run = 0;

  void visit(OpVisitor& v);
  void check() const;
};

/// The part of a Global update that a batch's rows do not see: the same rule with g = 0 for every
/// row that is not among unique_rows[0 .. run_count). It equals the two-pass form of the facts
/// (add g / beta to the touched rows, then decay all) without dividing by a factor that may be 0.
/// unscale (1) float32 or absent: 0 skips the step, any other value changes nothing. Weights in
/// bfloat16 are rounded as there; a row is its own number.
struct HCTR_API EmbeddingSweep {
  static constexpr const char* kName = "embedding_sweep";
  static constexpr const char* kSeveralName = "several_embedding_sweep";
  TensorRef unique_rows, run_count, weights, lr, step, unscale;
  std::vector<TensorRef> states;
  RowRounding rounding;
  OptParams params;

  void visit(OpVisitor& v);
  void check() const;
};

}  // namespace hugectr
