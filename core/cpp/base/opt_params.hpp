// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Optimizer settings, the same for tables and for the dense network.
namespace hugectr {

enum class Optimizer { Adam, AdaGrad, MomentumSGD, Nesterov, SGD };
enum class Update { Local, Global, LazyGlobal };

struct OptParams {
  Optimizer optimizer = Optimizer::Adam;
  Update update_type = Update::Global;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-7f;
  float initial_accu_value = 0.0f;
  float momentum_factor = 0.0f;
  bool atomic_update = true;  ///< accepted; updates stay deterministic
};

}  // namespace hugectr
