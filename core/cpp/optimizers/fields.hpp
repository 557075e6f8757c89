// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>

/// Settings of optimizers: sets of fields that describe themselves. An optimizer takes the sets it
/// needs; a set that several need is here, one of a single optimizer is in its own file.
namespace hugectr {

inline constexpr float kUnbounded = std::numeric_limits<float>::infinity();

/// One setting, a float. Its default is that of the member.
struct Field {
  const char* name;
  float minimum;  ///< least value that is allowed
  float below;    ///< values stay below it; kUnbounded: none
  const char* doc;
};

struct EpsilonField {
  float epsilon = 1e-7f;
  /// f(field, value) for every field of the set; `self` is a set, const or not.
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

/// What an entry of the catalogue derives from: its settings, as members.
template <class... Sets>
struct Fields : Sets... {
  /// Takes these settings of a struct that derives from the same sets.
  template <class From>
  void take([[maybe_unused]] const From& from) {
    ((static_cast<Sets&>(*this) = static_cast<const Sets&>(from)), ...);
  }
  /// f(field, value) for every field of all sets; `self` derives from them.
  template <class Self, class F>
  static void visit([[maybe_unused]] Self& self, [[maybe_unused]] const F& f) {
    (Sets::visit(self, f), ...);
  }
};

}  // namespace hugectr
