// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/optimizers/entry.hpp"

namespace hugectr {

/// m' = f m - lr g;  w += -f m + (1 + f) m';  m = m'
struct Nesterov : Fields<MomentumField> {
  static constexpr const char* kName = "Nesterov";
  static constexpr const char* kDoc =
      "n = momentum_factor m - lr g; w += (1 + momentum_factor) n - momentum_factor m; m = n";
  static constexpr std::array kStates{State{"momentum"}};
  static constexpr bool kMovesUntouchedRows = true;

  HCTR_HD void element(float lr, float& w, float& m, float&, float g) const {
    // Said, not left to the compiler (adam.hpp).
    const float next = fmaf(momentum_factor, m, -(lr * g));
    w += fmaf(-momentum_factor, m, (1.0f + momentum_factor) * next);
    m = next;
  }
};

}  // namespace hugectr
