// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>

#include "core/cpp/base/export.hpp"

/// Update rules of one weight, shared by the dense network and the embedding tables. `g` is the
/// gradient with the loss scale already divided out. Update type Local applies a rule to the rows a
/// batch touches; Global applies it to all rows, with g = 0 where the batch has none.
namespace hugectr {

/// w -= lr g
HCTR_HD inline void sgd_step(float& w, float g, float lr) { w -= lr * g; }

/// m = f m - lr g;  w += m
HCTR_HD inline void momentum_step(float& w, float& m, float g, float lr, float factor) {
  m = factor * m - lr * g;
  w += m;
}

/// m' = f m - lr g;  w += -f m + (1 + f) m';  m = m'
HCTR_HD inline void nesterov_step(float& w, float& m, float g, float lr, float factor) {
  const float next = factor * m - lr * g;
  w += (1.0f + factor) * next - factor * m;
  m = next;
}

/// a += g^2;  w -= lr g / (sqrt(a) + eps)
HCTR_HD inline void adagrad_step(float& w, float& a, float g, float lr, float epsilon) {
  a += g * g;
  w -= lr * g / (sqrtf(a) + epsilon);
}

/// m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  w -= lr_t m / (sqrt(v) + eps), where lr_t is
/// adam_learning_rate() of the step.
HCTR_HD inline void adam_step(float& w, float& m, float& v, float g, float lr_t, float beta1,
                              float beta2, float epsilon) {
  m = beta1 * m + (1.0f - beta1) * g;
  v = beta2 * v + (1.0f - beta2) * (g * g);
  w -= lr_t * m / (sqrtf(v) + epsilon);
}

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

/// w -= catch-up of old m, v;  m = b1^skipped m + (1 - b1) g;  v = b2^skipped v + (1 - b2) g^2
HCTR_HD inline void lazy_adam_step(float& w, float& m, float& v, float g,
                                   const AdamCatchUp& skipped, float beta1, float beta2,
                                   float epsilon) {
  w -= skipped.weight * m / (sqrtf(v) + epsilon);
  m = skipped.decay1 * m + (1.0f - beta1) * g;
  v = skipped.decay2 * v + (1.0f - beta2) * (g * g);
}

}  // namespace hugectr
