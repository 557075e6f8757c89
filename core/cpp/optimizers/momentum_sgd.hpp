// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/optimizers/entry.hpp"

namespace hugectr {

/// m = f m - lr g;  w += m
struct MomentumSGD : Fields<MomentumField> {
  static constexpr const char* kName = "MomentumSGD";
  static constexpr const char* kDoc = "m = momentum_factor m - lr g; w += m";
  static constexpr std::array kStates{State{"momentum"}};
  static constexpr bool kMovesUntouchedRows = true;

  HCTR_HD void element(float lr, float& w, float& m, float&, float g) const {
    m = fmaf(momentum_factor, m, -(lr * g));  // said, not left to the compiler (adam.hpp)
    w += m;
  }
};

}  // namespace hugectr
