// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// What follows a product in the same pass.
enum class Activation { Non, Relu };

/// y = act(x w + addend + b).
///
/// x: (batch, n) with strided rows, or (batch, s, n) contiguous, which counts as (batch * s, n).
/// w: (n, m), b: (m) or absent, both contiguous. y: x's shape with m last, rows as for x. addend:
/// as y, or absent. All of one dtype, float32, float16 or bfloat16. Overwrites y, which must not
/// overlap x or addend; rounds once. relu keeps NaN. Deterministic.
///
/// padded: x's rows go on with zeros up to a multiple of 8 elements; kernels may read them. fp8: x
/// and w are rounded to e4m3 first, each with the scale of its largest finite number (float8.hpp);
/// what is not finite becomes NaN. Sums stay float32.
struct HCTR_API LinearFwd {
  static constexpr const char* kName = "linear_fwd";
  static constexpr std::string_view k16BitFields = "x w addend b y";
  TensorRef x, w, addend, b, y;
  Activation activation = Activation::Non;
  bool padded = false;
  bool fp8 = false;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("w", Access::In, w);
    v.optional("addend", Access::In, addend);
    v.optional("b", Access::In, b);
    v.tensor("y", Access::Out, y);
    v.attribute("activation", activation);
    v.attribute("padded", padded);
    v.attribute("fp8", fp8);
  }
  void check() const;
};

/// dz = dy act'(y);  dx = below'(x) (dz w^T);  dw += x^T dz;  db += column sums of dz;
/// db_below += column sums of dx.
///
/// Shapes and dtypes as in LinearFwd; gradients of parameters and partial sums are float32.
/// y and dz (like y, scratch) are needed when activation is Relu; dz may be dy. dx absent: not
/// computed; dx is overwritten and overlaps nothing. db goes with `partial`, scratch of
/// (partial_rows(rows), m). dw and db accumulate. Deterministic.
///
/// below: what made x. With Relu, dx is the gradient of what that relu took (0 where x <= 0, and
/// passed on where x is NaN, as in relu_gradient), and db_below, which may be absent, that of the
/// bias before it: (n), with `partial_below`, scratch of (partial_rows(rows), n). overwrite: dw and
/// db are stored, not added to; overwrite_below: so is db_below. padded: as in LinearFwd.
/// dx_padded: dx's rows go on up to a multiple of 8 elements; kernels may write there. fp8: both
/// products take x and w in e4m3 and dz in e5m2, as in LinearFwd; db is the sum of the dz that was.
struct HCTR_API LinearBwd {
  static constexpr const char* kName = "linear_bwd";
  static constexpr std::string_view k16BitFields = "x w y dy dz dx";
  TensorRef x, w, y, dy, dz, dx, dw, db, partial, db_below, partial_below;
  Activation activation = Activation::Non;
  Activation below = Activation::Non;
  bool overwrite = false;
  bool overwrite_below = false;
  bool padded = false;
  bool dx_padded = false;
  bool fp8 = false;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("w", Access::In, w);
    v.optional("y", Access::In, y);
    v.tensor("dy", Access::In, dy);
    v.optional("dz", Access::Out, dz);
    v.optional("dx", Access::Out, dx);
    v.tensor("dw", Access::InOut, dw);
    v.optional("db", Access::InOut, db);
    v.optional("partial", Access::Out, partial);
    v.optional("db_below", Access::InOut, db_below);
    v.optional("partial_below", Access::Out, partial_below);
    v.attribute("activation", activation);
    v.attribute("below", below);
    v.attribute("overwrite", overwrite);
    v.attribute("overwrite_below", overwrite_below);
    v.attribute("padded", padded);
    v.attribute("dx_padded", dx_padded);
    v.attribute("fp8", fp8);
  }
  void check() const;

  /// The gradient of x w + b: dz, or dy where there is no activation.
  const TensorRef& gradient() const { return activation == Activation::Relu ? dz : dy; }
};

}  // namespace hugectr
