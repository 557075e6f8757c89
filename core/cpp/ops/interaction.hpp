// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Place of the dot product of rows n > m among the pairs, which start behind the columns of mlp.
HCTR_HD inline std::size_t interaction_pair(std::size_t n, std::size_t m) {
  return n * (n - 1) / 2 + m;
}

/// Columns of y for S embedding vectors of size w: mlp, T(T-1)/2 pairs with T = S + 1, one pad.
HCTR_HD inline std::size_t interaction_width(std::size_t slots, std::size_t width) {
  return width + slots * (slots + 1) / 2 + 1;
}

/// Pairwise dot products of DLRM. Row 0 of X (T, w) is mlp, rows 1 .. S are the slots of emb.
///
///   y[b, 0 .. w-1] = mlp[b];   y[b, w + n(n-1)/2 + m] = X[n] . X[m]  for n > m;   last y = 0
///
/// mlp: (b, w). emb: (b, S, w), any S >= 1. y: (b, interaction_width(S, w)). All float32, float16
/// or bfloat16; rows may be strided. Overwrites y; y overlaps nothing. Deterministic. T(T-1)w
/// FLOPs a sample, summed in float32.
struct HCTR_API InteractionFwd {
  static constexpr const char* kName = "interaction_fwd";
  static constexpr std::string_view k16BitFields = "mlp emb y";
  TensorRef mlp, emb, y;

  void visit(OpVisitor& v) {
    v.tensor("mlp", Access::In, mlp);
    v.tensor("emb", Access::In, emb);
    v.tensor("y", Access::Out, y);
  }
  void check() const;
};

/// dX[n] = sum over m != n of g(max(n, m), min(n, m)) * X[m], g the pairs of dy;
/// dmlp = dX[0] + dy[0 .. w-1], demb[s] = dX[s + 1]. The gradient of the pad is ignored.
///
/// Shapes and dtypes as in the forward; dmlp or demb may be empty. Overwrites both; they overlap
/// nothing. Deterministic. 2 T T w FLOPs a sample.
struct HCTR_API InteractionBwd {
  static constexpr const char* kName = "interaction_bwd";
  static constexpr std::string_view k16BitFields = "mlp emb dy dmlp demb";
  TensorRef mlp, emb, dy, dmlp, demb;

  void visit(OpVisitor& v) {
    v.tensor("mlp", Access::In, mlp);
    v.tensor("emb", Access::In, emb);
    v.tensor("dy", Access::In, dy);
    v.optional("dmlp", Access::Out, dmlp);
    v.optional("demb", Access::Out, demb);
  }
  void check() const;
};

}  // namespace hugectr
