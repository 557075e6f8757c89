// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/base/opt_params.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Tensors of optimizer state each weight has.
constexpr int optimizer_state_count(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::Adam:
      return 2;
    case Optimizer::SGD:
      return 0;
    default:
      return 1;
  }
}

/// One optimizer step on flat dense parameters: w, states = rule(w, unscale g / grad_scale,
/// states), by the formulas of core/cpp/base/optimizer_formulas.hpp (every weight is touched in
/// every step, so the update types Local and Global are one); w_lowered = w rounded to 16 bits.
///
/// w, g: (n) float32, contiguous. state0: Adam m, AdaGrad sum of squares, momentum; state1: Adam v;
/// both (n), present as optimizer_state_count() says. lr: (1) float32. step: (1) int64, the number
/// of this update from 1 (Adam only reads it). unscale: (1) float32, 1 when absent; 0 skips the
/// step: w, states and w_lowered stay as they are, whatever g holds. w_lowered: (n) float16 or
/// bfloat16, contiguous, may be absent: the copy of the weights that 16-bit ops read. Updates w and
/// the states, overwrites w_lowered. Deterministic.
struct HCTR_API DenseUpdate {
  static constexpr const char* kName = "dense_update";
  static constexpr std::string_view kLowered = "w_lowered";
  TensorRef w, g, state0, state1, lr, step, unscale, w_lowered;
  Optimizer optimizer = Optimizer::SGD;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
  double momentum_factor = 0.0;
  double grad_scale = 1.0;
  /// Takes the settings of an optimizer; tensors and grad_scale stay.
  void set(const OptParams& params) {
    optimizer = params.optimizer;
    beta1 = params.beta1;
    beta2 = params.beta2;
    epsilon = params.epsilon;
    momentum_factor = params.momentum_factor;
  }
  void visit(OpVisitor& v) {
    v.tensor("w", Access::InOut, w);
    v.tensor("g", Access::In, g);
    v.optional("state0", Access::InOut, state0);
    v.optional("state1", Access::InOut, state1);
    v.tensor("lr", Access::In, lr);
    v.tensor("step", Access::In, step);
    v.optional("unscale", Access::In, unscale);
    v.optional("w_lowered", Access::InOut, w_lowered);  // a skipped step keeps it
    v.attribute("optimizer", optimizer);
    v.attribute("beta1", beta1);
    v.attribute("beta2", beta2);
    v.attribute("epsilon", epsilon);
    v.attribute("momentum_factor", momentum_factor);
    v.attribute("grad_scale", grad_scale);
  }
  void check() const;
};

}  // namespace hugectr
