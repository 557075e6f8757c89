// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/optimizers/entry.hpp"

namespace hugectr {

struct FtrlFields {
  float beta = 0.0f;
  float lambda1 = 0.0f;
  float lambda2 = 0.0f;
  template <class Self, class F>
  static void visit(Self& self, const F& f) {
    f(Field{"beta", 0.0f, kUnbounded, "shortens the first steps: beta / lr is added to lambda2"},
      self.beta);
    f(Field{"lambda1", 0.0f, kUnbounded, "weight of the absolute values: makes weights exactly 0"},
      self.lambda1);
    f(Field{"lambda2", 0.0f, kUnbounded, "weight of the squares: makes weights small"},
      self.lambda2);
  }
};

/// With e = 2^-23, n' = n + g^2:
///   z += g - (sqrt(n' + e) - sqrt(n + e)) w / lr
///   w = |z| <= lambda1 ? 0 : (sign(z) lambda1 - z) / ((sqrt(n' + e) + beta) / lr + lambda2)
///
/// The published rule: a weight is what its z and n say, so what a row began with fades with its
/// first gradients. Untouched rows stay under every update type: no gradient says nothing of them.
/// A learning rate of 0 leaves w, n and z alone (the rule divides by it).
struct Ftrl : Fields<FtrlFields> {
  static constexpr const char* kName = "Ftrl";
  static constexpr const char* kDoc =
      "n' = n + g^2; z += g - (sqrt(n' + e) - sqrt(n + e)) w / lr; w = 0 where |z| <= lambda1, "
      "else (sign(z) lambda1 - z) / ((sqrt(n' + e) + beta) / lr + lambda2); e = 2^-23";
  static constexpr std::array kStates{State{"n"}, State{"z"}};
  static constexpr bool kMovesUntouchedRows = false;
  static constexpr bool kWeightsOfStates = true;

  HCTR_HD void element(float lr, float& w, float& n, float& z, float g) const {
    if (lr == 0.0f) return;
    constexpr float e = 0x1p-23f;
    const float square = g * g, sum = fmaf(g, g, n);  // said, not left to the compiler (adam.hpp)
    const float before = sqrtf(n + e), after = sqrtf(sum + e);
    // The difference of the roots without the digits that it would lose.
    z += g - square / (before + after) / lr * w;
    n = sum;
    const float pulled = fabsf(z) - lambda1;
    w = pulled > 0.0f ? copysignf(pulled, -z) / ((after + beta) / lr + lambda2) : 0.0f;
  }
};

}  // namespace hugectr
