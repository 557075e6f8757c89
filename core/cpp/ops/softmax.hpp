// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

/// Softmax over the last axis: y = e^(x - max) / sum e^(x - max).
///
/// x, y, dy, dx: (rows, n) with strided rows, or (b, .., n) contiguous, which counts as rows of n;
/// float32, float16 or bfloat16. Deterministic.
namespace hugectr {

/// What a masked element is pushed down by: mask 1 keeps it, 0 takes it out.
inline constexpr float kSoftmaxMasked = -10000.0f;

HCTR_HD inline float softmax_masked(float x, float mask) {
  return x + (1.0f - mask) * kSoftmaxMasked;
}

/// Which row of the mask goes with a row of x: (row / outer) * inner + row % inner. Dimensions of
/// size 1 lie between those that both have.
struct SoftmaxMaskRows {
  std::size_t outer = 1, inner = 1;
  HCTR_HD std::size_t operator()(std::size_t row) const {
    return row / outer * inner + row % inner;
  }
};

/// mask: absent, or as x but for dimensions of size 1 behind the first, which stand for all of x's
/// there and lie side by side, as in (b, 1, from, to) for (b, heads, from, to); contiguous unless
/// two-dimensional. Then x - (1 - mask) 10000 takes the place of x. Overwrites y, which may be x.
struct HCTR_API SoftmaxFwd {
  static constexpr const char* kName = "softmax_fwd";
  static constexpr std::string_view k16BitFields = "x mask y";
  TensorRef x, mask, y;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.optional("mask", Access::In, mask);
    v.tensor("y", Access::Out, y);
  }
  void check() const;
  SoftmaxMaskRows mask_rows() const;
};

/// dx = y (dy - sum over the row of dy y). The same with a mask. Overwrites dx, which may be dy.
struct HCTR_API SoftmaxBwd {
  static constexpr const char* kName = "softmax_bwd";
  static constexpr std::string_view k16BitFields = "y dy dx";
  TensorRef y, dy, dx;
  void visit(OpVisitor& v) {
    v.tensor("y", Access::In, y);
    v.tensor("dy", Access::In, dy);
    v.tensor("dx", Access::Out, dx);
  }
  void check() const;
};

/// Whether a mask of one shape goes with an x of the other.
HCTR_API bool softmax_mask_fits(const Shape& mask, const Shape& x);

}  // namespace hugectr
