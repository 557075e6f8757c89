// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

/// Layer normalisation: every row to mean beta and deviation gamma.
///
///   h = (x - mean(x)) / sqrt(var(x) + eps),  y = gamma h + beta
///
/// mean and var (population) are over the last axis. x, y, dy, dx: (rows, n) with strided rows, or
/// (b, .., n) contiguous, which counts as rows of n; all float32, float16 or bfloat16. gamma, beta:
/// (n) float32. Statistics are taken again in the backward, which has x at hand, so nothing is kept
/// for it. Deterministic.
namespace hugectr {

/// Pieces of the rows that dgamma and dbeta are summed in: enough to fill a device, few enough that
/// they cost little beside the rows. At least 16 rows a piece.
inline std::size_t layer_norm_pieces(std::size_t rows) {
  return std::clamp<std::size_t>((rows + 15) / 16, 1, 512);
}

/// Rows of one piece; the last pieces may have fewer, or none.
inline std::size_t layer_norm_piece(std::size_t rows) {
  const std::size_t pieces = layer_norm_pieces(rows);
  return (rows + pieces - 1) / pieces;
}

/// Overwrites y, which may be x.
struct HCTR_API LayerNormFwd {
  static constexpr const char* kName = "layer_norm_fwd";
  static constexpr std::string_view k16BitFields = "x y";
  TensorRef x, gamma, beta, y;
  double eps = 1e-5;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("gamma", Access::In, gamma);
    v.tensor("beta", Access::In, beta);
    v.tensor("y", Access::Out, y);
    v.attribute("eps", eps);
  }
  void check() const;
};

/// With g = gamma dy: dx = (g - mean(g) - h mean(g h)) / sqrt(var + eps), means over the row;
/// dgamma += sum over rows of dy h;  dbeta += sum over rows of dy.
///
/// dx may be absent (not computed), or dy; it is overwritten. partial: (layer_norm_pieces(rows),
/// 2 n) float32 scratch: a piece's sums of dy h, then of dy. A GPU uses a row for each block that
/// it runs at once.
struct HCTR_API LayerNormBwd {
  static constexpr const char* kName = "layer_norm_bwd";
  static constexpr std::string_view k16BitFields = "x dy dx";
  TensorRef x, gamma, dy, dx, dgamma, dbeta, partial;
  double eps = 1e-5;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("gamma", Access::In, gamma);
    v.tensor("dy", Access::In, dy);
    v.optional("dx", Access::Out, dx);
    v.tensor("dgamma", Access::InOut, dgamma);
    v.tensor("dbeta", Access::InOut, dbeta);
    v.tensor("partial", Access::Out, partial);
    v.attribute("eps", eps);
  }
  void check() const;
};

}  // namespace hugectr
