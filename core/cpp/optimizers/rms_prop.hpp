// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/optimizers/entry.hpp"

namespace hugectr {

struct RhoField {
  float rho = 0.9f;
  template <class Self, class F>
  static void visit(Self& self, const F& f) {
    f(Field{"rho", 0.0f, 1.0f, "share of the mean square that goes on"}, self.rho);
  }
};

/// What RMSProp LazyGlobal knows of a row.
struct RMSPropCatchUp {
  float lr;
  float decay;  ///< rho to the power of the steps since the row's last one
};

/// RMSProp LazyGlobal: v = rho^skipped v + (1 - rho) g^2;  w -= lr g / (sqrt(v) + eps)
///
/// Global but for rounding: without a gradient v fades and w stays.
struct LazyRMSProp : Fields<RhoField, EpsilonField> {
  static constexpr std::array kStates{State{"v"}};
  static constexpr bool kMovesUntouchedRows = false;

  HCTR_HD RMSPropCatchUp row(float lr, std::int64_t last, std::int64_t step) const {
    return {lr,
            static_cast<float>(pow(static_cast<double>(rho), static_cast<double>(step - last)))};
  }
  HCTR_HD void element(const RMSPropCatchUp& row, float& w, float& v, float&, float g) const {
    v = fmaf(row.decay, v, (1.0f - rho) * (g * g));
    w -= row.lr * g / (sqrtf(v) + epsilon);
  }
};

/// v = rho v + (1 - rho) g^2;  w -= lr g / (sqrt(v) + eps)
struct RMSProp : Fields<RhoField, EpsilonField> {
  static constexpr const char* kName = "RMSProp";
  static constexpr const char* kDoc = "v = rho v + (1 - rho) g^2; w -= lr g / (sqrt(v) + epsilon)";
  static constexpr std::array kStates{State{"v"}};
  static constexpr bool kMovesUntouchedRows = true;  // v fades
  using Lazy = LazyRMSProp;

  HCTR_HD void element(float lr, float& w, float& v, float&, float g) const {
    v = fmaf(rho, v, (1.0f - rho) * (g * g));  // said, not left to the compiler (adam.hpp)
    w -= lr * g / (sqrtf(v) + epsilon);
  }
};

}  // namespace hugectr
