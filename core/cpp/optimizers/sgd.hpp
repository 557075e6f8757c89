// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/optimizers/entry.hpp"

namespace hugectr {

/// w -= lr g
struct SGD : Fields<> {
  static constexpr const char* kName = "SGD";
  static constexpr const char* kDoc = "w -= lr g";
  static constexpr std::array<State, 0> kStates{};
  static constexpr bool kMovesUntouchedRows = false;

  HCTR_HD void element(float lr, float& w, float&, float&, float g) const { w -= lr * g; }
};

}  // namespace hugectr
