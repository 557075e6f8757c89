// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/optimizers/entry.hpp"

namespace hugectr {

struct BetaFields {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  template <class Self, class F>
  static void visit(Self& self, const F& f) {
    f(Field{"beta1", 0.0f, 1.0f, "share of the first moment that goes on"}, self.beta1);
    f(Field{"beta2", 0.0f, 1.0f, "share of the second moment that goes on"}, self.beta2);
  }
};

/// lr sqrt(1 - b2^t) / (1 - b1^t) for update number t >= 1; in double, because 1 - b2^t loses
/// digits in float.
HCTR_HD inline float adam_learning_rate(float lr, float beta1, float beta2, std::int64_t t) {
  const double bias1 = 1.0 - pow(static_cast<double>(beta1), static_cast<double>(t));
  const double bias2 = 1.0 - pow(static_cast<double>(beta2), static_cast<double>(t));
  return static_cast<float>(lr * sqrt(bias2) / bias1);
}

/// What Adam LazyGlobal does to a row for the updates it sat out.
struct AdamCatchUp {
  float weight;  ///< w -= weight * m / (sqrt(v) + eps)
  float decay1;  ///< m *= decay1
  float decay2;  ///< v *= decay2
};

/// For a row last brought up to update `last` (>= 1) when update `t` (>= last) comes. The weight
/// takes the missed updates, `last` itself included, as one geometric series with the bias
/// correction of `last`: an approximation of Global that touches a row only when a batch does.
HCTR_HD inline AdamCatchUp adam_catch_up(float lr, float beta1, float beta2, std::int64_t last,
                                         std::int64_t t) {
  const auto skipped = static_cast<double>(t - last);
  const double decay1 = pow(static_cast<double>(beta1), skipped);
  const double decay2 = pow(static_cast<double>(beta2), skipped);
  const double series = (1.0 - decay1) / (1.0 - static_cast<double>(beta1));
  return {static_cast<float>(series * adam_learning_rate(lr, beta1, beta2, last)),
          static_cast<float>(decay1), static_cast<float>(decay2)};
}

/// Adam LazyGlobal: w -= catch-up of old m, v;  m = b1^skipped m + (1 - b1) g;
/// v = b2^skipped v + (1 - b2) g^2
struct LazyAdam : Fields<BetaFields, EpsilonField> {
  static constexpr std::array kStates{State{"m"}, State{"v"}};
  static constexpr bool kMovesUntouchedRows = false;

  HCTR_HD AdamCatchUp row(float lr, std::int64_t last, std::int64_t step) const {
    return adam_catch_up(lr, beta1, beta2, last, step);
  }
  HCTR_HD void element(const AdamCatchUp& skipped, float& w, float& m, float& v, float g) const {
    w -= skipped.weight * m / (sqrtf(v) + epsilon);
    m = fmaf(skipped.decay1, m, (1.0f - beta1) * g);
    v = fmaf(skipped.decay2, v, (1.0f - beta2) * (g * g));
  }
};

/// m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  w -= lr_t m / (sqrt(v) + eps), where lr_t is
/// adam_learning_rate() of the step.
struct Adam : Fields<BetaFields, EpsilonField> {
  static constexpr const char* kName = "Adam";
  static constexpr const char* kDoc =
      "m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; "
      "w -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon) in step t";
  static constexpr std::array kStates{State{"m"}, State{"v"}};
  static constexpr bool kMovesUntouchedRows = true;
  using Lazy = LazyAdam;

  HCTR_HD float rate(float lr, std::int64_t step) const {
    return adam_learning_rate(lr, beta1, beta2, step);
  }
  HCTR_HD void element(float lr_t, float& w, float& m, float& v, float g) const {
    // Said, not left to the compiler: of two products it may round either one, loop by loop.
    m = fmaf(beta1, m, (1.0f - beta1) * g);
    v = fmaf(beta2, v, (1.0f - beta2) * (g * g));
    w -= lr_t * m / (sqrtf(v) + epsilon);
  }
};

}  // namespace hugectr
