// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/optimizers/entry.hpp"

namespace hugectr {

/// a += mean of g^2 over the row;  w -= lr / (sqrt(a) + eps) g
///
/// One number a row instead of d. A dense weight is a row of its own: there it is AdaGrad.
struct RowWiseAdaGrad : Fields<AccumulatorField, EpsilonField> {
  static constexpr const char* kName = "RowWiseAdaGrad";
  static constexpr const char* kDoc =
      "a += mean of g^2 over the row, one a for a row; w -= lr / (sqrt(a) + epsilon) g; a dense "
      "weight is a row of its own";
  static constexpr std::array kStates{State{"accumulator", StateWidth::Row, "initial_accu_value"}};
  static constexpr bool kMovesUntouchedRows = false;

  /// The step length of a row.
  HCTR_HD float row(float lr, float& a, float mean_square) const {
    a += mean_square;
    return lr / (sqrtf(a) + epsilon);
  }
  HCTR_HD void element(float length, float& w, float&, float&, float g) const { w -= length * g; }
};

}  // namespace hugectr
