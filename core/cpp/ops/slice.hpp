// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Copies ranges of an axis other than the batch into tensors of their own; a pure copy.
///
///   ys[i][b, .., j, ..] = x[b, .., begins[i] + j, ..]
///
/// x: float32, float16 or bfloat16, 2-D or more, axis from 1 on; ys: any number, like x but with
/// their own size at `axis`; begins: one a y. Ranges may overlap, leave gaps and be equal.
/// Overwrites ys; no y overlaps x. Deterministic. With axis 1 every y is a range of columns of x,
/// so the record may become views. Also the backward of concat_fwd (x = dy, ys = dxs).
struct HCTR_API SliceFwd {
  static constexpr const char* kName = "slice_fwd";
  static constexpr std::string_view k16BitFields = "x ys";
  TensorRef x;
  std::vector<TensorRef> ys;
  std::vector<std::int64_t> begins;
  std::int64_t axis = 1;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensors("ys", Access::Out, ys);
    v.attribute("begins", begins);
    v.attribute("axis", axis);
  }
  void check() const;
};

/// Adds the gradients of ranges of axis 1 that may overlap.
///
///   dx[b, j, ..] = sum over i with begins[i] <= j < begins[i] + size_i of
///                  dys[i][b, j - begins[i], ..]      (0 where no range covers j)
///
/// Shapes and dtypes as in slice_fwd with axis 1. Overwrites dx; dx overlaps no dy. Summed in the
/// order of dys, in float32: deterministic. CUDA rounds 16-bit sums after every fourth dy that
/// covers a column. Ranges that part axis 1 exactly need no sum: there concat_fwd does.
struct HCTR_API SliceBwd {
  static constexpr const char* kName = "slice_bwd";
  static constexpr std::string_view k16BitFields = "dys dx";
  std::vector<TensorRef> dys;
  TensorRef dx;
  std::vector<std::int64_t> begins;

  void visit(OpVisitor& v) {
    v.tensors("dys", Access::In, dys);
    v.tensor("dx", Access::Out, dx);
    v.attribute("begins", begins);
  }
  void check() const;
};

}  // namespace hugectr
