// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// The same elements in the same order under another shape; a pure copy.
///
///   y.flat[e] = x.flat[e]
///
/// x, y: float32, float16 or bfloat16, any shapes of equal size (also equal shapes: then it is a
/// plain copy). Overwrites y; y does not overlap x. Deterministic. When x and y have rows of one
/// size, or both are contiguous, the record may become a view. Also its own backward (x = dy, y =
/// dx), and the backward of add_fwd.
struct HCTR_API ReshapeFwd {
  static constexpr const char* kName = "reshape_fwd";
  static constexpr std::string_view k16BitFields = "x y";
  TensorRef x, y;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("y", Access::Out, y);
  }
  void check() const;
};

}  // namespace hugectr
