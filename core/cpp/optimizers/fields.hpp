// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/fields.hpp"

/// Sets of fields that several optimizers need; one of a single optimizer is in its own file.
namespace hugectr {

struct EpsilonField {
  float epsilon = 1e-7f;
  template <class Self, class F>
  static void visit(Self& self, const F& f) {
    f(Field{"epsilon", 0.0f, kUnbounded, "added to a root before it divides"}, self.epsilon);
  }
};

struct MomentumField {
  float momentum_factor = 0.0f;
  template <class Self, class F>
  static void visit(Self& self, const F& f) {
    f(Field{"momentum_factor", 0.0f, kUnbounded, "share of the last change that goes on"},
      self.momentum_factor);
  }
};

struct AccumulatorField {
  float initial_accu_value = 0.0f;
  template <class Self, class F>
  static void visit(Self& self, const F& f) {
    f(Field{"initial_accu_value", 0.0f, kUnbounded, "first value of the accumulators"},
      self.initial_accu_value);
  }
};

}  // namespace hugectr
