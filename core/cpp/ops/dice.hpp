// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/batch_norm.hpp"

/// Dice, the activation of Deep Interest Networks: PReLU whose bend lies where the batch does.
///
///   h = (x - mean) / sqrt(var + eps),  p = 1 / (1 + e^-h),  y = p x + (1 - p) alpha x
///
/// mean and var are a column's over the GLOBAL batch, as batch_norm_sums, batch_norm_squares and
/// batch_norm_statistics make them; gradients go through them. Backward is dice_bwd_sums,
/// all_reduce(dsums), dice_bwd. Shapes, dtypes and weight are those of batch_norm.hpp.
/// Deterministic.
namespace hugectr {

/// p of one element.
HCTR_HD inline float dice_gate(float h) { return 1.0f / (1.0f + expf(-h)); }

HCTR_HD inline float dice(float x, float p, float alpha) { return p * x + (1.0f - p) * alpha * x; }

/// dy/dx of one element where h is held.
HCTR_HD inline float dice_slope(float p, float alpha) { return alpha + (1.0f - alpha) * p; }

/// dy/dh of one element. x p (1 - p) is 0, not NaN, where p is.
HCTR_HD inline float dice_gate_gradient(float x, float p, float alpha) {
  return (1.0f - alpha) * x * (p * (1.0f - p));
}

/// Overwrites y, which may be x.
struct HCTR_API DiceFwd {
  static constexpr const char* kName = "dice_fwd";
  static constexpr std::string_view k16BitFields = "x y";
  TensorRef x, mean, mean_low, var, y;
  double alpha = 0.0;
  double eps = 1e-5;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("mean", Access::In, mean);
    v.tensor("mean_low", Access::In, mean_low);
    v.tensor("var", Access::In, var);
    v.tensor("y", Access::Out, y);
    v.attribute("alpha", alpha);
    v.attribute("eps", eps);
  }
  void check() const;
};

/// With g = dy dy/dh: dsums[j] = sum_i g_ij;  dsums[n + j] = sum_i g_ij h_ij.
/// dsums: (2 n) float64, overwritten. partial: (partial_rows(batch), 2 n) float64 scratch.
struct HCTR_API DiceBwdSums {
  static constexpr const char* kName = "dice_bwd_sums";
  static constexpr std::string_view k16BitFields = "x dy";
  TensorRef x, mean, mean_low, var, dy, dsums, partial;
  double alpha = 0.0;
  double eps = 1e-5;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("mean", Access::In, mean);
    v.tensor("mean_low", Access::In, mean_low);
    v.tensor("var", Access::In, var);
    v.tensor("dy", Access::In, dy);
    v.tensor("dsums", Access::Out, dsums);
    v.tensor("partial", Access::Out, partial);
    v.attribute("alpha", alpha);
    v.attribute("eps", eps);
  }
  void check() const;
};

/// dx_ij = dy_ij slope_ij
///         + (g_ij - weight_i (dsums[j] + h_ij dsums[n + j]) / count) / sqrt(var_j + eps)
/// with count = sums[n] of batch_norm_sums. Overwrites dx, which may be dy.
struct HCTR_API DiceBwd {
  static constexpr const char* kName = "dice_bwd";
  static constexpr std::string_view k16BitFields = "x dy dx";
  TensorRef x, weight, mean, mean_low, var, dy, sums, dsums, dx;
  double alpha = 0.0;
  double eps = 1e-5;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("weight", Access::In, weight);
    v.tensor("mean", Access::In, mean);
    v.tensor("mean_low", Access::In, mean_low);
    v.tensor("var", Access::In, var);
    v.tensor("dy", Access::In, dy);
    v.tensor("sums", Access::In, sums);
    v.tensor("dsums", Access::In, dsums);
    v.tensor("dx", Access::Out, dx);
    v.attribute("alpha", alpha);
    v.attribute("eps", eps);
  }
  void check() const;
};

}  // namespace hugectr
