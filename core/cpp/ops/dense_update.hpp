// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/loops/visit_opt_params.hpp"

namespace hugectr {

/// One optimizer step on flat dense parameters: w, states = rule(w, unscale g / grad_scale,
/// states), by the rules of core/cpp/optimizers, after what Adjustment there says (every weight is
/// touched in every step, so all update types are one; a weight is a row of its own); w_16 = w
/// rounded to 16 bits.
///
/// w, g: (n) float32, contiguous. state0, state1: the optimizer's states, (n), as
/// many as num_states() says. lr: (1) float32. step: (1) int64, the number
/// of this update from 1. unscale: (1) float32, 1 when absent; 0 skips the
/// step: w, states and w_16 stay as they are, whatever g holds. w_16: (n) float16 or
/// bfloat16, contiguous, may be absent: the copy of the weights that 16-bit ops read. Updates w and
/// the states, overwrites w_16. Deterministic.
struct HCTR_API DenseUpdate {
  static constexpr const char* kName = "dense_update";
  static constexpr std::string_view k16BitFields = "w_16";
  TensorRef w, g, state0, state1, lr, step, unscale, w_16;
  OptParams params;
  double grad_scale = 1.0;
  void visit(OpVisitor& v) {
    v.tensor("w", Access::InOut, w);
    v.tensor("g", Access::In, g);
    v.optional("state0", Access::InOut, state0);
    v.optional("state1", Access::InOut, state1);
    v.tensor("lr", Access::In, lr);
    v.tensor("step", Access::In, step);
    v.optional("unscale", Access::In, unscale);
    v.optional("w_16", Access::InOut, w_16);  // a skipped step keeps it
    visit_opt_params(v, params);
    v.attribute("grad_scale", grad_scale);
  }
  void check() const;
};

}  // namespace hugectr
