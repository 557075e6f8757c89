// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/cpp/base/error.hpp"

namespace hugectr {

/// Whether weights are trained, and the steps that went by while they were frozen. Those are none
/// of theirs, as in PyTorch an optimizer does not count a step for a parameter without a gradient:
/// Adam's bias corrections, and what a lazy row makes up for, go by the updates that there were.
class TrainedSteps {
 public:
  void freeze() { trained_ = false; }
  void unfreeze() { trained_ = true; }
  bool is_trainable() const { return trained_; }

  /// Behind each step of a training.
  void stepped() { left_out_ += trained_ ? 0 : 1; }
  /// Steps that they were frozen in.
  std::int64_t left_out() const { return left_out_; }
  void set_left_out(std::int64_t steps) {
    HCTR_CHECK(steps >= 0, "weights can not have been frozen for ", steps, " steps");
    left_out_ = steps;
  }
  /// Number, from 1, of their own update in a step of this number.
  std::int64_t own(std::int64_t step) const { return std::max<std::int64_t>(step - left_out_, 1); }

 private:
  bool trained_ = true;
  std::int64_t left_out_ = 0;
};

}  // namespace hugectr
