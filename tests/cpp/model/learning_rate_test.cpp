// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/learning_rate.hpp"

#include <gtest/gtest.h>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

TEST(LearningRate, WarmUpPlateauDecayEnd) {
  LearningRateScheduler s({.base_lr = 8.0,
                           .warmup_steps = 4,
                           .decay_start = 6,
                           .decay_steps = 4,
                           .decay_power = 2.0,
                           .end_lr = 1.0});
  const double expected[] = {2, 4, 6, 8, 8, 8, 4.5, 2, 1, 1, 1, 1};
  for (const double lr : expected) EXPECT_DOUBLE_EQ(s.get_next(), lr);
}

TEST(LearningRate, NoDecayWithoutDecayStart) {
  LearningRateScheduler s({.base_lr = 0.5, .warmup_steps = 1});
  for (int i = 0; i < 100; ++i) EXPECT_DOUBLE_EQ(s.get_next(), 0.5);
}

TEST(LearningRate, SetStepContinues) {
  const LearningRateParams params{
      .base_lr = 1.0, .warmup_steps = 10, .decay_start = 20, .decay_steps = 10};
  LearningRateScheduler all(params), rest(params);
  for (int i = 0; i < 15; ++i) all.get_next();
  rest.set_step(15);
  EXPECT_DOUBLE_EQ(rest.get_lr(), all.get_lr());
  for (int i = 0; i < 20; ++i) EXPECT_DOUBLE_EQ(rest.get_next(), all.get_next());
}

TEST(LearningRate, RefusesWhatMakesNoSense) {
  EXPECT_THROW(LearningRateScheduler({.base_lr = -1.0}), InvalidArgument);
  EXPECT_THROW(LearningRateScheduler({.warmup_steps = 0}), InvalidArgument);
  EXPECT_THROW(LearningRateScheduler({.decay_steps = 0}), InvalidArgument);
  EXPECT_THROW(LearningRateScheduler({.decay_power = 0.5}), InvalidArgument);
  EXPECT_THROW(LearningRateScheduler({.end_lr = -0.1}), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
