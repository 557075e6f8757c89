// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// One step of c below.
HCTR_HD inline float cross_scale_next(float c, float dot, float offset) {
  return c + c * dot + offset;
}

/// L cross layers of DCN: x_{l+1} = x_0 (x_l . w_l) + x_l + b_l, all in one pass over x_0.
///
///   x_l = c_l x_0 + B_l with B_l = sum of b_m, m < l, the same for every sample, and
///   c_0 = 1, c_{l+1} = c_l + c_l (x_0 . w_l) + B_l . w_l;   y = x_L,  dots[b, l] = x_0 . w_l
///
/// x: float32 (b, n). ws, bs: L tensors each, float32 (n). y: float32 (b, n). dots: float32
/// (b, L), contiguous, the only thing kept for the backward. Overwrites y and dots; they overlap
/// nothing. Deterministic. Moves 8n + 4L bytes and 2nL + 2n FLOPs a sample (layer by layer it
/// would be 12nL bytes and more).
struct HCTR_API MultiCrossFwd {
  static constexpr const char* kName = "multi_cross_fwd";
  TensorRef x;
  std::vector<TensorRef> ws, bs;
  TensorRef y, dots;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensors("ws", Access::In, ws);
    v.tensors("bs", Access::In, bs);
    v.tensor("y", Access::Out, y);
    v.tensor("dots", Access::Out, dots);
  }
  void check() const;
};

/// With a_L = dy . x_0, a_l = a_{l+1} (1 + dots_l), all per sample, and A_l = sum_b a_{l+1}:
///   dx    = c_L dy + sum_l a_{l+1} c_l w_l
///   dw_l += sum_b a_{l+1} c_l x_0 + A_l B_l
///   db_m += sum_b dy + sum over l > m of A_l w_l
///
/// Shapes as in the forward; dws, dbs: as ws, bs. partial: scratch, float32
/// (partial_rows(b), (L + 1) n + L), contiguous (partial_sums.hpp). dx may be empty. Overwrites dx,
/// accumulates into dws and dbs. Deterministic. Moves 12n + 4L bytes and 4nL + 4n FLOPs a sample.
struct HCTR_API MultiCrossBwd {
  static constexpr const char* kName = "multi_cross_bwd";
  TensorRef x;
  std::vector<TensorRef> ws, bs;
  TensorRef dots, dy, dx;
  std::vector<TensorRef> dws, dbs;
  TensorRef partial;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensors("ws", Access::In, ws);
    v.tensors("bs", Access::In, bs);
    v.tensor("dots", Access::In, dots);
    v.tensor("dy", Access::In, dy);
    v.optional("dx", Access::Out, dx);
    v.tensors("dws", Access::InOut, dws);
    v.tensors("dbs", Access::InOut, dbs);
    v.tensor("partial", Access::Out, partial);
  }
  void check() const;
};

}  // namespace hugectr
