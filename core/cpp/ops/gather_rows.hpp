// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// values[i] = source[rows[i]], bit for bit; where rows[i] is kNoRow values[i] stays as it is.
/// rows (n) uint32 below R or kNoRow; values (n, d), source (R, d) of the same dtype, packed.
/// Overwrites the named rows. Deterministic.
struct HCTR_API GatherRows {
  static constexpr const char* kName = "gather_rows";
  static constexpr const char* kSeveralName = "several_gather_rows";
  TensorRef rows, source, values;

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::In, rows);
    v.tensor("source", Access::In, source);
    v.tensor("values", Access::Out, values);
  }
  void check() const;
};

}  // namespace hugectr
