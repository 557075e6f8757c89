// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Element-wise difference: y = a - b.
///
/// a, b, y: float32, float16 or bfloat16 of one shape, rows may be strided. Overwrites y, which may
/// be a or b, element for element. Subtracted in float32: deterministic.
struct HCTR_API SubFwd {
  static constexpr const char* kName = "sub_fwd";
  static constexpr std::string_view k16BitFields = "a b y";
  TensorRef a, b, y;

  void visit(OpVisitor& v) {
    v.tensor("a", Access::In, a);
    v.tensor("b", Access::In, b);
    v.tensor("y", Access::Out, y);
  }
  void check() const;
};

/// db = -dy; da is dy itself, which reshape_fwd hands on. Shapes, dtypes as in the forward.
/// Overwrites db. Deterministic.
struct HCTR_API SubBwd {
  static constexpr const char* kName = "sub_bwd";
  static constexpr std::string_view k16BitFields = "dy db";
  TensorRef dy, db;

  void visit(OpVisitor& v) {
    v.tensor("dy", Access::In, dy);
    v.tensor("db", Access::Out, db);
  }
  void check() const;
};

}  // namespace hugectr
