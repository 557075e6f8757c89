// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Samples that one piece of work takes through all steps.
inline constexpr std::size_t kGruSlice = 32;
inline std::size_t gru_slices(std::size_t batch) { return (batch + kGruSlice - 1) / kGruSlice; }

/// What one unit does in one step, and what its gradient needs of it. x: its three inputs (reset,
/// update, new), bias added; s: what the states before give to the same three.
struct GruUnit {
  float r, z, n, state;

  static HCTR_HD GruUnit step(const float (&x)[3], const float (&s)[3], float before) {
    GruUnit unit;
    unit.r = 1.0f / (1.0f + std::exp(-(x[0] + s[0])));
    unit.z = 1.0f / (1.0f + std::exp(-(x[1] + s[1])));
    unit.n = std::tanh(x[2] + unit.r * s[2]);
    unit.state = (1.0f - unit.z) * unit.n + unit.z * before;
    return unit;
  }
};

/// Gradients of a unit's three inputs x; those of s are the same but the last, which is times r.
struct GruUnitGradient {
  float r, z, n;

  /// d: gradient of the state; s_new: s[2] of the step.
  static HCTR_HD GruUnitGradient step(float r, float z, float n, float s_new, float before,
                                      float d) {
    GruUnitGradient g;
    g.n = d * (1.0f - z) * (1.0f - n * n);
    g.z = d * (before - n) * z * (1.0f - z);
    g.r = g.n * s_new * r * (1.0f - r);
    return g;
  }
};

/// A gated recurrent unit over whole sequences, from inputs that are already projected; the reset
/// gate acts behind the product, as in cuDNN:
///
///   r = sigmoid(xr + h R_r^T),  z = sigmoid(xz + h R_z^T),  n = tanh(xn + r * (h R_n^T))
///   h' = (1 - z) * n + z * h,   h = 0 before the first step
///
/// x: (b * t, 3 h), rows of a sample in the order of its steps, columns r, z, n. bias: float32
/// (3 h), added to x. w: (3 h, h), contiguous. y: (b, t, h), the states. gates: (b * t, 4 h), for
/// the backward pass: r, z, n, h R_n^T. x, w, y, gates are of one dtype, float32, float16 or
/// bfloat16; rows may be strided. Overwrites y and gates. A step computes in float32
/// and rounds its results. Deterministic. CUDA: h is at most 320.
struct HCTR_API GruFwd {
  static constexpr const char* kName = "gru_fwd";
  static constexpr std::string_view k16BitFields = "x w y gates";
  TensorRef x, bias, w, y, gates;

  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("bias", Access::In, bias);
    v.tensor("w", Access::In, w);
    v.tensor("y", Access::Out, y);
    v.tensor("gates", Access::Out, gates);
  }
  void check() const;
};

/// Gradients through all steps, from the last to the first.
///
/// dx: (b * t, 3 h), of x. ds: (b * t, 3 h), of h R^T: dw is ds^T before, which a product makes.
/// before: (b * t, h), the state before each step. dbias += column sums of dx, float32 (3 h);
/// partial: scratch, float32 (gru_slices(b), 3 h), contiguous. Else as in the forward, whose y and
/// gates these are. Overwrites dx, ds and before. Sums over the batch are cut by its size alone:
/// deterministic.
struct HCTR_API GruBwd {
  static constexpr const char* kName = "gru_bwd";
  static constexpr std::string_view k16BitFields = "w y gates dy dx ds before";
  TensorRef w, y, gates, dy, dx, ds, before, dbias, partial;

  void visit(OpVisitor& v) {
    v.tensor("w", Access::In, w);
    v.tensor("y", Access::In, y);
    v.tensor("gates", Access::In, gates);
    v.tensor("dy", Access::In, dy);
    v.tensor("dx", Access::Out, dx);
    v.tensor("ds", Access::Out, ds);
    v.tensor("before", Access::Out, before);
    v.tensor("dbias", Access::InOut, dbias);
    v.tensor("partial", Access::Out, partial);
  }
  void check() const;
};

}  // namespace hugectr
