// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Gather and combine:
///   out[sample, slot] = scale[bucket] * sum of weights[rows[i]], row_offsets[bucket] <= i <
///                       row_offsets[bucket + 1], bucket = sample * S + slot, in the order of i
///
/// rows (n) uint32, kNoRow adds nothing; row_offsets (B*S + 1) uint32; weights (R, d) float32 or
/// bfloat16, as a table keeps them, or float16 when out has that too (rows that came from other
/// devices); scale (B*S) float32
/// (mean) or empty (sum: 1); out (B, S, d) float32, float16 or bfloat16, any row_stride: summed in
/// float32, rounded once. Overwrites; an empty bucket becomes zero. Deterministic.
///
/// The CPU copies weights of float16 to float32 as a whole, others never.
struct HCTR_API EmbeddingLookup {
  static constexpr const char* kName = "embedding_lookup";
  static constexpr const char* kSeveralName = "several_embedding_lookup";
  static constexpr std::string_view k16BitFields = "out";  // a table says what its weights are
  static constexpr std::string_view kBFloat16OnCpu = "weights";
  TensorRef rows, row_offsets, weights, scale, out;

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::In, rows);
    v.tensor("row_offsets", Access::In, row_offsets);
    v.tensor("weights", Access::In, weights);
    v.optional("scale", Access::In, scale);
    v.tensor("out", Access::Out, out);
  }
  void check() const;
};

}  // namespace hugectr
