// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Joins tensors along an axis other than the batch; a pure copy.
///
///   y[b, .., begin_i + j, ..] = xs[i][b, .., j, ..],  begin_i = sum of the sizes of xs[0..i-1]
///
/// xs: any number, float32, float16 or bfloat16, 2-D or more, axis from 1 on, equal in the other
/// dimensions. y: the same with the sum at `axis`. Overwrites y; y
/// overlaps no x. Deterministic. With axis 1 every x is a range of columns of y, so the record may
/// become views. Its backward is slice_fwd: dxs are ranges of dy.
struct HCTR_API ConcatFwd {
  static constexpr const char* kName = "concat_fwd";
  static constexpr std::string_view k16BitFields = "xs y";
  std::vector<TensorRef> xs;
  TensorRef y;
  std::int64_t axis = 1;

  void visit(OpVisitor& v) {
    v.tensors("xs", Access::In, xs);
    v.tensor("y", Access::Out, y);
    v.attribute("axis", axis);
  }
  void check() const;
};

}  // namespace hugectr
