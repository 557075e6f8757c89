// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/ops/elementwise/entry.hpp"

namespace hugectr {

struct EluFields {
  float alpha = 1.0f;
  template <class Self, class F>
  static void visit(Self& self, const F& f) {
    // A negative one would make a positive y of a negative x, and y must tell its side.
    f(Field{"alpha", 0.0f, kUnbounded, "what -y tends to for small x"}, self.alpha);
  }
};

/// y = x > 0 ? x : alpha (e^x - 1),  dx = dy (y > 0 ? 1 : y + alpha)
struct Elu : Fields<EluFields> {
  static constexpr const char* kName = "ELU";
  static constexpr const char* kOp = "elu";
  static constexpr const char* kDoc = "y = x where x > 0, else alpha (e^x - 1)";

  HCTR_HD float forward(float x) const { return x > 0.0f ? x : alpha * expm1f(x); }
  HCTR_HD float backward(float y, float dy) const { return y > 0.0f ? dy : dy * (y + alpha); }
};

}  // namespace hugectr
