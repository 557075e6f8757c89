// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/ops/elementwise/entry.hpp"

namespace hugectr {

/// 1 / (1 + e^-x); expf of a value <= 0 only, so that nothing overflows.
HCTR_HD inline float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/// y = 1 / (1 + e^-x),  dx = dy y (1 - y)
struct Sigmoid : Fields<> {
  static constexpr const char* kName = "Sigmoid";
  static constexpr const char* kOp = "sigmoid";
  static constexpr const char* kDoc = "y = 1 / (1 + e^-x)";

  HCTR_HD float forward(float x) const { return sigmoid(x); }
#ifdef __CUDACC__
  /// Wrong by a few units in the last place of float32, far below those of 16 bits.
  __device__ float forward_in_16_bits(float x) const { return __fdividef(1.0f, 1.0f + __expf(-x)); }
#endif
  HCTR_HD float backward(float y, float dy) const { return dy * y * (1.0f - y); }
};

using SigmoidFwd = ActivationFwd<Sigmoid>;
using SigmoidBwd = ActivationBwd<Sigmoid>;

}  // namespace hugectr
