// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Which pairs of places of two sequences both exist.
///
///   y[b, 0, i, j] = 1 if i < from[b] and j < to[b], else 0
///
/// from, to: (b, 1) float32, the lengths, which are not rounded. y: (b, 1, max from, max to),
/// float32, float16 or bfloat16. Overwrites y. Deterministic.
struct HCTR_API SequenceMask {
  static constexpr const char* kName = "sequence_mask";
  static constexpr std::string_view k16BitFields = "y";
  TensorRef from, to, y;

  void visit(OpVisitor& v) {
    v.tensor("from", Access::In, from);
    v.tensor("to", Access::In, to);
    v.tensor("y", Access::Out, y);
  }
  void check() const;
};

}  // namespace hugectr
