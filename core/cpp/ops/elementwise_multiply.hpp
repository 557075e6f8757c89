// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Element-wise product: y = xs[0] * xs[1] * ..., multiplied in this order.
///
/// xs: at least one, y: all float32, float16 or bfloat16 of one shape. Overwrites y; y may be one
/// of xs, element for element, and overlaps no x otherwise. Multiplied in float32: deterministic.
struct HCTR_API ElementwiseMultiplyFwd {
  static constexpr const char* kName = "elementwise_multiply_fwd";
  static constexpr std::string_view k16BitFields = "xs y";
  std::vector<TensorRef> xs;
  TensorRef y;

  void visit(OpVisitor& v) {
    v.tensors("xs", Access::In, xs);
    v.tensor("y", Access::Out, y);
  }
  void check() const;
};

/// dxs[k] = dy * product of all xs[i] with i != wanted[k].
///
/// Never divides by an x, so factors of zero are right. wanted: which inputs get a gradient, one
/// number a dx, ascending; empty: all of them. All tensors float32, float16 or bfloat16 of one
/// shape. Overwrites dxs; a dx overlaps no other tensor. Deterministic. CUDA: at most 500 inputs.
struct HCTR_API ElementwiseMultiplyBwd {
  static constexpr const char* kName = "elementwise_multiply_bwd";
  static constexpr std::string_view k16BitFields = "xs dy dxs";
  std::vector<TensorRef> xs;
  TensorRef dy;
  std::vector<TensorRef> dxs;
  std::vector<std::int64_t> wanted;

  void visit(OpVisitor& v) {
    v.tensors("xs", Access::In, xs);
    v.tensor("dy", Access::In, dy);
    v.tensors("dxs", Access::Out, dxs);
    v.attribute("wanted", wanted);
  }
  void check() const;
};

}  // namespace hugectr
