// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Element-wise sum: y = xs[0] + xs[1] + ..., added in this order.
///
/// xs: at least one, y: all float32, float16 or bfloat16 of one shape. Overwrites y; y may be one
/// of xs, element for element, and overlaps no x otherwise. Summed in float32: deterministic. Its
/// backward is reshape_fwd, once an input: every dx is a copy of dy (and becomes a view of it).
struct HCTR_API AddFwd {
  static constexpr const char* kName = "add_fwd";
  static constexpr std::string_view k16BitFields = "xs y";
  std::vector<TensorRef> xs;
  TensorRef y;

  void visit(OpVisitor& v) {
    v.tensors("xs", Access::In, xs);
    v.tensor("y", Access::Out, y);
  }
  void check() const;
};

}  // namespace hugectr
