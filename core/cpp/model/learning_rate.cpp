// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/learning_rate.hpp"

#include <algorithm>
#include <cmath>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

void check(const LearningRateParams& p) {
  HCTR_CHECK(p.base_lr >= 0, "learning rate lr must be >= 0, found ", p.base_lr);
  HCTR_CHECK(p.warmup_steps >= 1, "warmup_steps must be >= 1, found ", p.warmup_steps);
  HCTR_CHECK(p.decay_start >= 0, "decay_start must be >= 0, found ", p.decay_start);
  HCTR_CHECK(p.decay_steps >= 1, "decay_steps must be >= 1, found ", p.decay_steps);
  HCTR_CHECK(p.decay_power >= 1, "decay_power must be >= 1, found ", p.decay_power);
  HCTR_CHECK(p.end_lr >= 0, "end_lr must be >= 0, found ", p.end_lr);
}

double rate(const LearningRateParams& p, std::int64_t s) {
  if (s <= p.warmup_steps) {
    return p.base_lr * static_cast<double>(s) / static_cast<double>(p.warmup_steps);
  }
  if (p.decay_start == 0 || s <= p.decay_start) return p.base_lr;
  const std::int64_t end = p.decay_start + p.decay_steps;
  if (s > end) return p.end_lr;
  const double left = static_cast<double>(end - s) / static_cast<double>(p.decay_steps);
  return std::max(p.end_lr, p.base_lr * std::pow(left, p.decay_power));
}

}  // namespace

LearningRateScheduler::LearningRateScheduler(const LearningRateParams& params) { reset(params); }

double LearningRateScheduler::get_next() {
  lr_ = rate(params_, ++step_);
  return lr_;
}

void LearningRateScheduler::set_step(std::int64_t step) {
  HCTR_CHECK(step >= 0, "schedule step must be >= 0, found ", step);
  step_ = step;
  lr_ = step > 0 ? rate(params_, step) : params_.base_lr;
}

void LearningRateScheduler::reset(const LearningRateParams& params) {
  check(params);
  params_ = params;
  step_ = 0;
  lr_ = params.base_lr;
}

}  // namespace hugectr
