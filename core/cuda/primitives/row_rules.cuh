// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/opt_params.hpp"
#include "core/cpp/base/optimizer_formulas.hpp"

/// The optimizer rules of core/cpp/base/optimizer_formulas.hpp as kernels over rows of a table use
/// them: the learning rate lies in device memory, and what a row needs beyond its elements is
/// asked for once a row.
///
/// A rule has kStates, row(run) -> Row for the run-th touched row, and
/// operator()(row, w, s0, s1, g) for one element.
namespace hugectr::cuda {

struct RowRate {
  float lr;
};

struct SgdRowRule {
  static constexpr int kStates = 0;
  const float* lr;
  __device__ RowRate row(std::size_t) const { return {__ldg(lr)}; }
  __device__ void operator()(RowRate r, float& w, float&, float&, float g) const {
    sgd_step(w, g, r.lr);
  }
};

struct AdaGradRowRule {
  static constexpr int kStates = 1;
  const float* lr;
  float epsilon;
  __device__ RowRate row(std::size_t) const { return {__ldg(lr)}; }
  __device__ void operator()(RowRate r, float& w, float& a, float&, float g) const {
    adagrad_step(w, a, g, r.lr, epsilon);
  }
};

struct MomentumRowRule {
  static constexpr int kStates = 1;
  const float* lr;
  float factor;
  __device__ RowRate row(std::size_t) const { return {__ldg(lr)}; }
  __device__ void operator()(RowRate r, float& w, float& m, float&, float g) const {
    momentum_step(w, m, g, r.lr, factor);
  }
};

struct NesterovRowRule {
  static constexpr int kStates = 1;
  const float* lr;
  float factor;
  __device__ RowRate row(std::size_t) const { return {__ldg(lr)}; }
  __device__ void operator()(RowRate r, float& w, float& m, float&, float g) const {
    nesterov_step(w, m, g, r.lr, factor);
  }
};

struct AdamRowRule {
  static constexpr int kStates = 2;
  const float* lr_t;  ///< adam_learning_rate() of the step
  float beta1, beta2, epsilon;
  __device__ RowRate row(std::size_t) const { return {__ldg(lr_t)}; }
  __device__ void operator()(RowRate r, float& w, float& m, float& v, float g) const {
    adam_step(w, m, v, g, r.lr, beta1, beta2, epsilon);
  }
};

struct LazyAdamRowRule {
  static constexpr int kStates = 2;
  const AdamCatchUp* skipped;  ///< adam_catch_up() of every touched row
  float beta1, beta2, epsilon;
  __device__ AdamCatchUp row(std::size_t run) const { return skipped[run]; }
  __device__ void operator()(const AdamCatchUp& r, float& w, float& m, float& v, float g) const {
    lazy_adam_step(w, m, v, g, r, beta1, beta2, epsilon);
  }
};

/// Calls f(rule) with the rule of the settings. `lr_t` is used by Adam, `skipped` by its LazyGlobal
/// form.
template <class F>
void with_device_row_rule(const OptParams& p, const float* lr, const float* lr_t,
                          const AdamCatchUp* skipped, const F& f) {
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
        return f(LazyAdamRowRule{skipped, p.beta1, p.beta2, p.epsilon});
      }
      return f(AdamRowRule{lr_t, p.beta1, p.beta2, p.epsilon});
  }
  throw InvalidArgument(concat("optimizer ", static_cast<int>(p.optimizer), " is unknown"));
}

}  // namespace hugectr::cuda
