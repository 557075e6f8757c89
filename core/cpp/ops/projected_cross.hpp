// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// One cross layer of DCN v2 with low-rank weights.
///
///   h = x U,   z = h V + bias,   y = x0 * z + x   (the last line element-wise)
///
/// x0 (the network's input), x (this layer's): (b, n), may be the same tensor. u: (n, k), v: (k,
/// n), bias: (n), contiguous. h: (b, k), z: (b, n), both kept for the backward. y: (b, n). All
/// float32, float16 or bfloat16. Overwrites h, z and y, which overlap nothing. Deterministic.
struct HCTR_API ProjectedCrossFwd {
  static constexpr const char* kName = "projected_cross_fwd";
  static constexpr std::string_view k16BitFields = "x0 x u v bias h z y";
  TensorRef x0, x, u, v, bias, h, z, y;

  void visit(OpVisitor& visitor) {
    visitor.tensor("x0", Access::In, x0);
    visitor.tensor("x", Access::In, x);
    visitor.tensor("u", Access::In, u);
    visitor.tensor("v", Access::In, v);
    visitor.tensor("bias", Access::In, bias);
    visitor.tensor("h", Access::Out, h);
    visitor.tensor("z", Access::Out, z);
    visitor.tensor("y", Access::Out, y);
  }
  void check() const;
};

/// dz = dy * x0;  dh = dz V^T;  dv += h^T dz;  du += x^T dh;  dbias += sum_b dz;
/// dx = dy + dh U^T;  dx0 = [dx0 if accumulate] + dy * z
///
/// dz: (b, n), dh: (b, k), partial: (partial_rows(b), n) contiguous (partial_sums.hpp): scratch.
/// du, dv, dbias and partial are float32, all else is of one dtype. dx0 and dx may be empty. In the
/// first cross layer x is x0: leave dx empty and set `x_is_x0`, then dx0 gets dx's part too.
/// Accumulates into du, dv, dbias. Deterministic.
struct HCTR_API ProjectedCrossBwd {
  static constexpr const char* kName = "projected_cross_bwd";
  static constexpr std::string_view k16BitFields = "x0 x u v h z dy dx0 dx dz dh";
  TensorRef x0, x, u, v, h, z, dy, dx0, dx, du, dv, dbias, dz, dh, partial;
  bool accumulate = false;
  bool x_is_x0 = false;

  void visit(OpVisitor& visitor) {
    visitor.tensor("x0", Access::In, x0);
    visitor.tensor("x", Access::In, x);
    visitor.tensor("u", Access::In, u);
    visitor.tensor("v", Access::In, v);
    visitor.tensor("h", Access::In, h);
    visitor.tensor("z", Access::In, z);
    visitor.tensor("dy", Access::In, dy);
    visitor.optional("dx0", Access::InOut, dx0);
    visitor.optional("dx", Access::Out, dx);
    visitor.tensor("du", Access::InOut, du);
    visitor.tensor("dv", Access::InOut, dv);
    visitor.tensor("dbias", Access::InOut, dbias);
    visitor.tensor("dz", Access::Out, dz);
    visitor.tensor("dh", Access::Out, dh);
    visitor.tensor("partial", Access::Out, partial);
    visitor.attribute("accumulate", accumulate);
    visitor.attribute("x_is_x0", x_is_x0);
  }
  void check() const;
};

}  // namespace hugectr
