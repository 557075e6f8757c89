// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>

#include "core/cpp/base/export.hpp"

/// Update rules of one weight, shared by the dense network and the embedding tables (update type
/// Local). `g` is the gradient with the loss scale already divided out.
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

}  // namespace hugectr
