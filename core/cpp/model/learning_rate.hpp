// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/base/export.hpp"

namespace hugectr {

struct LearningRateParams {
  double base_lr = 0.001;
  std::int64_t warmup_steps = 1;
  std::int64_t decay_start = 0;  ///< 0: no decay
  std::int64_t decay_steps = 1;
  double decay_power = 2.0;
  double end_lr = 0.0;
};

/// Warm-up, plateau, polynomial decay. Step s = 1, 2, ...:
///   s <= warmup: base s / warmup;  decay_start == 0 or s <= decay_start: base;
///   s <= decay_start + decay_steps: max(end, base ((decay_start + decay_steps - s) /
///   decay_steps)^power); else end.
class HCTR_API LearningRateScheduler {
 public:
  /// InvalidArgument when base < 0, warmup < 1, decay_steps < 1, power < 1 or end < 0.
  explicit LearningRateScheduler(const LearningRateParams& params);
  double get_next();                     ///< advances to the next step and returns its rate
  double get_lr() const { return lr_; }  ///< the rate get_next() returned last
  std::int64_t step() const { return step_; }
  void set_step(std::int64_t step);
  void reset(const LearningRateParams& params);
  const LearningRateParams& params() const { return params_; }

 private:
  LearningRateParams params_;
  std::int64_t step_ = 0;
  double lr_ = 0.0;
};

}  // namespace hugectr
