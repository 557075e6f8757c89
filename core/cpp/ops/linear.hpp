// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// What follows a product in the same pass.
enum class Activation { Non, Relu };

/// y = act(x w + b).
///
/// x: (batch, n) with strided rows, or (batch, s, n) contiguous, which counts as (batch * s, n).
/// w: (n, m), b: (m) or absent, both contiguous. y: x's shape with m last, rows as for x.
/// All of one dtype, float32, float16 or bfloat16. Overwrites y, which must not overlap x.
/// Deterministic.
struct HCTR_API LinearFwd {
  static constexpr const char* kName = "linear_fwd";
  static constexpr std::string_view kLowered = "x w b y";
  TensorRef x, w, b, y;
  Activation activation = Activation::Non;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("w", Access::In, w);
    v.optional("b", Access::In, b);
    v.tensor("y", Access::Out, y);
    v.attribute("activation", activation);
  }
  void check() const;
};

/// dz = dy act'(y);  dx = dz w^T;  dw += x^T dz;  db += column sums of dz.
///
/// Shapes and dtypes as in LinearFwd; dw, db and partial are float32. y and dz (like y, scratch)
/// are needed when activation is Relu; dz may be dy. dx absent: not computed; dx is overwritten and
/// overlaps nothing. db goes with `partial`, scratch of (partial_rows(rows), m). dw and db
/// accumulate. Deterministic.
struct HCTR_API LinearBwd {
  static constexpr const char* kName = "linear_bwd";
  static constexpr std::string_view kLowered = "x w y dy dz dx";
  TensorRef x, w, y, dy, dz, dx, dw, db, partial;
  Activation activation = Activation::Non;
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
    v.attribute("activation", activation);
  }
  void check() const;
};

}  // namespace hugectr
