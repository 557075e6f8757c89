// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Picks places of one axis, the batch included; a pure copy.
///
///   y[.., i, ..] = x[.., indices[i], ..]
///
/// x: float32, float16 or bfloat16, any number of dimensions. indices: k >= 1 numbers in [0, size
/// of `axis`), any order, repetition allowed. y: like x with k at `axis`. Overwrites y; y does not
/// overlap x. Deterministic.
struct HCTR_API TakeFwd {
  static constexpr const char* kName = "take_fwd";
  static constexpr std::string_view k16BitFields = "x y";
  TensorRef x, y;
  std::vector<std::int64_t> indices;
  std::int64_t axis = 1;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("y", Access::Out, y);
    v.attribute("indices", indices);
    v.attribute("axis", axis);
  }
  void check() const;
};

/// dx[.., s, ..] = sum over i with indices[i] == s of dy[.., i, ..]; 0 for places not picked.
///
/// Shapes and dtypes as in the forward. Overwrites dx; dx does not overlap dy. Summed in the order
/// of indices, in float32: deterministic. CUDA rounds 16-bit sums after every 512 indices.
struct HCTR_API TakeBwd {
  static constexpr const char* kName = "take_bwd";
  static constexpr std::string_view k16BitFields = "dy dx";
  TensorRef dy, dx;
  std::vector<std::int64_t> indices;
  std::int64_t axis = 1;

  void visit(OpVisitor& v) {
    v.tensor("dy", Access::In, dy);
    v.tensor("dx", Access::Out, dx);
    v.attribute("indices", indices);
    v.attribute("axis", axis);
  }
  void check() const;
};

}  // namespace hugectr
