// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Most cross layers of an op: their weights travel to a kernel as a list of fixed size.
inline constexpr std::size_t kMostCrossLayers = 64;

inline constexpr std::size_t kCrossPieces = 528;  ///< most pieces of a batch

/// How the backward cuts the batch for its sums: enough pieces to keep a GPU busy, each of at least
/// 32 samples; a function of the batch alone, so that sums do not depend on the device.
inline std::size_t cross_samples_per_piece(std::size_t batch) {
  return std::max<std::size_t>(32, (batch + kCrossPieces - 1) / kCrossPieces);
}

/// Rows of the backward's scratch.
inline std::size_t cross_pieces(std::size_t batch) {
  const std::size_t samples = cross_samples_per_piece(batch);
  return (batch + samples - 1) / samples;
}

/// One step of c below.
HCTR_HD inline float cross_scale_next(float c, float dot, float offset) {
  return c + c * dot + offset;
}

/// L cross layers of DCN: x_{l+1} = x_0 (x_l . w_l) + x_l + b_l, all in one pass over x_0.
///
///   x_l = c_l x_0 + B_l with B_l = sum of b_m, m < l, the same for every sample, and
///   c_0 = 1, c_{l+1} = c_l + c_l (x_0 . w_l) + B_l . w_l;   y = x_L,  dots[b, l] = x_0 . w_l
///
/// x, y: (b, n), both float32, float16 or bfloat16, rows may be strided. ws, bs: L <= 64 tensors
/// each, float32 (n). dots: float32 (b, L), contiguous, the only thing kept for the backward.
/// Overwrites y and dots; they overlap nothing. Deterministic. Moves 2 ne + 4L bytes (e bytes an
/// element) and 2nL + 2n FLOPs a sample (layer by layer it would be 3 neL bytes and more).
struct HCTR_API MultiCrossFwd {
  static constexpr const char* kName = "multi_cross_fwd";
  static constexpr std::string_view k16BitFields = "x y";
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
/// Shapes as in the forward; x, dy and dx are of one dtype. dws, dbs: as ws, bs. partial: scratch,
/// float32 (cross_pieces(b), (L + 1) n + L), contiguous. dx may be empty. Overwrites dx,
/// accumulates into dws and dbs. Deterministic. Moves 3 ne + 4L bytes and 4nL + 4n FLOPs a sample.
struct HCTR_API MultiCrossBwd {
  static constexpr const char* kName = "multi_cross_bwd";
  static constexpr std::string_view k16BitFields = "x dy dx";
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
