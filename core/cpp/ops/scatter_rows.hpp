// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// target[rows[i]] = values[i]; a row kNoRow is passed over.
/// rows (n) uint32, distinct but for kNoRow and below R; values (n, d), target (R, d) of the same
/// dtype, packed. Overwrites the named rows. Deterministic.
struct HCTR_API ScatterRows {
  static constexpr const char* kName = "scatter_rows";
  static constexpr const char* kSeveralName = "several_scatter_rows";
  TensorRef rows, values, target;

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::In, rows);
    v.tensor("values", Access::In, values);
    v.tensor("target", Access::InOut, target);
  }
  void check() const;
};

}  // namespace hugectr
