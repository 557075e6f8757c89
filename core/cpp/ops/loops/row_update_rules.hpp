// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/opt_params.hpp"
#include "core/cpp/base/optimizer_formulas.hpp"

/// The optimizer rules of core/cpp/base/optimizer_formulas.hpp applied to whole rows of a table.
/// A rule is a small value: kStates, and apply(n, g, w, s0, s1, row) over n contiguous elements.
/// g == nullptr stands for a zero gradient.
namespace hugectr {

/// State arrays of a table, in the order they are saved: m, v (Adam) | accumulator | momentum.
inline std::size_t num_states(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::Adam:
      return 2;
    case Optimizer::SGD:
      return 0;
    default:
      return 1;
  }
}

/// Whether rows keep the step they were last brought up to.
inline bool keeps_last_step(const OptParams& params) {
  return params.optimizer == Optimizer::Adam && params.update_type == Update::LazyGlobal;
}

/// Whether rows that a batch does not touch change all the same. LazyGlobal of the momentum rules
/// is their exact Global; SGD and AdaGrad leave untouched rows alone under every update type.
inline bool sweeps_untouched_rows(const OptParams& params) {
  switch (params.optimizer) {
    case Optimizer::Adam:
      return params.update_type == Update::Global;
    case Optimizer::MomentumSGD:
    case Optimizer::Nesterov:
      return params.update_type != Update::Local;
    default:
      return false;
  }
}

struct SgdRowRule {
  static constexpr std::size_t kStates = 0;
  float lr;
  void apply(std::size_t n, const float* __restrict g, float* __restrict w, float*, float*,
             std::size_t) const {
    for (std::size_t i = 0; i < n; ++i) sgd_step(w[i], g ? g[i] : 0.0f, lr);
  }
};

struct AdaGradRowRule {
  static constexpr std::size_t kStates = 1;
  float lr, epsilon;
  void apply(std::size_t n, const float* __restrict g, float* __restrict w, float* __restrict a,
             float*, std::size_t) const {
    for (std::size_t i = 0; i < n; ++i) adagrad_step(w[i], a[i], g ? g[i] : 0.0f, lr, epsilon);
  }
};

struct MomentumRowRule {
  static constexpr std::size_t kStates = 1;
  float lr, factor;
  void apply(std::size_t n, const float* __restrict g, float* __restrict w, float* __restrict m,
             float*, std::size_t) const {
    for (std::size_t i = 0; i < n; ++i) momentum_step(w[i], m[i], g ? g[i] : 0.0f, lr, factor);
  }
};

struct NesterovRowRule {
  static constexpr std::size_t kStates = 1;
  float lr, factor;
  void apply(std::size_t n, const float* __restrict g, float* __restrict w, float* __restrict m,
             float*, std::size_t) const {
    for (std::size_t i = 0; i < n; ++i) nesterov_step(w[i], m[i], g ? g[i] : 0.0f, lr, factor);
  }
};

struct AdamRowRule {
  static constexpr std::size_t kStates = 2;
  float lr_t, beta1, beta2, epsilon;
  void apply(std::size_t n, const float* __restrict g, float* __restrict w, float* __restrict m,
             float* __restrict v, std::size_t) const {
    for (std::size_t i = 0; i < n; ++i) {
      adam_step(w[i], m[i], v[i], g ? g[i] : 0.0f, lr_t, beta1, beta2, epsilon);
    }
  }
};

struct LazyAdamRowRule {
  static constexpr std::size_t kStates = 2;
  float lr, beta1, beta2, epsilon;
  std::int64_t step;
  std::int64_t* last_step;
  void apply(std::size_t n, const float* __restrict g, float* __restrict w, float* __restrict m,
             float* __restrict v, std::size_t row) const {
    const AdamCatchUp skipped = adam_catch_up(lr, beta1, beta2, last_step[row], step);
    for (std::size_t i = 0; i < n; ++i) {
      lazy_adam_step(w[i], m[i], v[i], g ? g[i] : 0.0f, skipped, beta1, beta2, epsilon);
    }
    last_step[row] = step;
  }
};

/// Calls f(rule) with the rule of the settings; lr and step are those of the present update.
template <class F>
void with_row_rule(const OptParams& p, float lr, std::int64_t step, std::int64_t* last_step,
                   const F& f) {
  switch (p.optimizer) {
    case Optimizer::SGD:
      return f(SgdRowRule{lr});
    case Optimizer::AdaGrad:
      return f(AdaGradRowRule{lr, p.epsilon});
    case Optimizer::MomentumSGD:
      return f(MomentumRowRule{lr, p.momentum_factor});
    case Optimizer::Nesterov:
      return f(NesterovRowRule{lr, p.momentum_factor});
    case Optimizer::Adam:
      if (p.update_type == Update::LazyGlobal) {
        return f(LazyAdamRowRule{lr, p.beta1, p.beta2, p.epsilon, step, last_step});
      }
      return f(
          AdamRowRule{adam_learning_rate(lr, p.beta1, p.beta2, step), p.beta1, p.beta2, p.epsilon});
  }
  throw InvalidArgument(concat("optimizer ", static_cast<int>(p.optimizer), " is unknown"));
}

}  // namespace hugectr
