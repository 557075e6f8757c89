// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/fields.hpp"

/// Sets of fields that losses share; see core/cpp/base/fields.hpp.
namespace hugectr {

/// How much more a positive label counts than a negative one.
struct PositiveFields {
  float pos_weight = 1.0f;
  template <class Self, class F>
  static void visit(Self& self, const F& f) {
    f(Field{"pos_weight", 0.0f, kUnbounded,
            "factor of the positive part of the loss, such as negatives / positives of the data"},
      self.pos_weight);
  }
};

}  // namespace hugectr
