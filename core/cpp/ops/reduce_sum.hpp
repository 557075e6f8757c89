// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Sum over one axis other than the batch, times `factor` (1 / size: the mean); the axis stays,
/// with size 1.
///
///   y[b, .., 0, ..] = factor * sum_j x[b, .., j, ..]
///
/// x: (b, n) with axis 1 or (b, m, n) with axis 1 or 2. y: the same with 1 at `axis`. Both float32,
/// float16 or bfloat16; sums are float32. Overwrites y; y does not overlap x. Deterministic.
struct HCTR_API ReduceSumFwd {
  static constexpr const char* kName = "reduce_sum_fwd";
  static constexpr std::string_view k16BitFields = "x y";
  TensorRef x, y;
  std::int64_t axis = 1;
  double factor = 1.0;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("y", Access::Out, y);
    v.attribute("axis", axis);
    v.attribute("factor", factor);
  }
  void check() const;
};

/// dx[b, .., j, ..] = factor * dy[b, .., 0, ..]: the gradient is copied along the axis. Shapes and
/// dtypes as in the forward. Overwrites dx. With factor 1 it is also how a layer repeats elements.
struct HCTR_API ReduceSumBwd {
  static constexpr const char* kName = "reduce_sum_bwd";
  static constexpr std::string_view k16BitFields = "dy dx";
  TensorRef dy, dx;
  std::int64_t axis = 1;
  double factor = 1.0;

  void visit(OpVisitor& v) {
    v.tensor("dy", Access::In, dy);
    v.tensor("dx", Access::Out, dx);
    v.attribute("axis", axis);
    v.attribute("factor", factor);
  }
  void check() const;
};

}  // namespace hugectr
