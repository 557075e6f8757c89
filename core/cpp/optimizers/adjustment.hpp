// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/fields.hpp"

/// What an update does before the rule, whatever the rule is: clipping, penalties, decay.
namespace hugectr {

/// Settings that every optimizer takes; 0 leaves out what a field asks for.
struct AdjustmentFields {
  float weight_decay = 0.0f;
  float l1 = 0.0f;
  float l2 = 0.0f;
  float clip_value = 0.0f;
  float clip_norm = 0.0f;
  template <class Self, class F>
  static void visit(Self& self, const F& f) {
    f(Field{"weight_decay", 0.0f, kUnbounded,
            "w *= 1 - lr weight_decay before the rule, apart from the gradient (AdamW); of a table "
            "the rows of a batch"},
      self.weight_decay);
    f(Field{"l1", 0.0f, kUnbounded,
            "g += l1 sign(w) before the rule: of the loss plus l1 sum |w| over the dense weights, "
            "of a table over the distinct rows of a batch"},
      self.l1);
    f(Field{"l2", 0.0f, kUnbounded,
            "g += l2 w before the rule: of the loss plus l2 / 2 sum w^2 over the dense weights, of "
            "a table over the distinct rows of a batch"},
      self.l2);
    f(Field{"clip_value", 0.0f, kUnbounded,
            "every number of the gradient of the loss is held in -clip_value .. clip_value"},
      self.clip_value);
    f(Field{"clip_norm", 0.0f, kUnbounded,
            "all gradients of the loss are multiplied by min(1, clip_norm / (norm + 1e-6)), the "
            "norm being that of the dense weights' gradients and of the batch's distinct rows "
            "together; of the model's optimizer, for all tables too"},
      self.clip_norm);
  }
};

/// The settings as loops over weights use them. A loop asks any() once, outside: what is not asked
/// for costs nothing and changes no bit. clip_norm is part of the factor of the gradient already
/// (core/cpp/ops/clip_norm.hpp).
struct Adjustment : Fields<AdjustmentFields> {
  HCTR_HD bool any() const {
    return weight_decay > 0.0f || l1 > 0.0f || l2 > 0.0f || clip_value > 0.0f;
  }
  /// What is left of a weight in a step of this learning rate.
  HCTR_HD float kept(float lr) const { return 1.0f - lr * weight_decay; }
  /// Of one weight and its gradient, the loss scale divided out; NaN stays NaN.
  HCTR_HD void operator()(float kept, float& w, float& g) const {
    if (clip_value > 0.0f) g = g > clip_value ? clip_value : (g < -clip_value ? -clip_value : g);
    g = fmaf(l2, w, g);
    if (l1 > 0.0f) g += w > 0.0f ? l1 : (w < 0.0f ? -l1 : l1 * w);
    w *= kept;
  }
};

}  // namespace hugectr
