// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// y = x in y's dtype, rounded to nearest even.
///
/// x, y: one shape, rows may be strided, each float32, float16 or bfloat16. Overwrites y, which
/// must not overlap x. Deterministic. Its backward is the same op with the gradients.
struct HCTR_API Cast {
  static constexpr const char* kName = "cast";
  TensorRef x, y;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("y", Access::Out, y);
  }
  void check() const;
};

}  // namespace hugectr
