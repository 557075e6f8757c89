// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/optimizers/entry.hpp"

namespace hugectr {

/// a += g^2;  w -= lr g / (sqrt(a) + eps)
struct AdaGrad : Fields<AccumulatorField, EpsilonField> {
  static constexpr const char* kName = "AdaGrad";
  static constexpr const char* kDoc = "a += g^2; w -= lr g / (sqrt(a) + epsilon)";
  static constexpr std::array kStates{
      State{"accumulator", StateWidth::Element, "initial_accu_value"}};
  static constexpr bool kMovesUntouchedRows = false;

  HCTR_HD void element(float lr, float& w, float& a, float&, float g) const {
    // Said, not left to the compiler: it rounds once in one loop and twice in another.
    a = fmaf(g, g, a);
    w -= lr * g / (sqrtf(a) + epsilon);
  }
};

}  // namespace hugectr
