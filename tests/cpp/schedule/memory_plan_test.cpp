// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/cpp/ops/elementwise/relu.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

/// a -> relu -> g0 -> relu -> g1 -> ... : neighbours live together, others do not.
StepSchedule chain(int length, TensorRole role) {
  StepSchedule schedule;
  TensorRef last = schedule.add_tensor("a", {8, 16});
  for (int i = 0; i < length; ++i) {
    const TensorRef next = schedule.add_tensor("g" + std::to_string(i), {8, 16}, role);
    schedule.add(Phase::Backward, ReluFwd{.x = last, .y = next}, "chain");
    last = next;
  }
  return schedule;
}

TEST(MemoryPlan, GradientsOfAChainShareTwoBuffers) {
  const StepSchedule schedule = chain(10, TensorRole::Gradient);
  const MemoryPlan plan = plan_memory(schedule, true);
  const std::size_t one = 8 * 16 * sizeof(float);
  EXPECT_EQ(plan.bytes, 3 * one);  // the activation and two gradients
  EXPECT_EQ(plan.bytes_unshared, 11 * one);
}

TEST(MemoryPlan, TensorsAliveTogetherNeverOverlap) {
  const StepSchedule schedule = chain(10, TensorRole::Gradient);
  const MemoryPlan plan = plan_memory(schedule, true);
  const std::size_t one = 8 * 16 * sizeof(float);
  for (int i = 0; i + 1 < 10; ++i) {
    const auto a = plan.offsets.at(schedule.id("g" + std::to_string(i)));
    const auto b = plan.offsets.at(schedule.id("g" + std::to_string(i + 1)));
    EXPECT_TRUE(a + one <= b || b + one <= a) << i;
  }
}

TEST(MemoryPlan, ActivationsKeepTheirMemory) {
  const StepSchedule schedule = chain(10, TensorRole::Activation);
  const MemoryPlan plan = plan_memory(schedule, true);
  EXPECT_EQ(plan.bytes, plan.bytes_unshared);
}

TEST(MemoryPlan, WithoutSharingEverybodyHasItsOwn) {
  const StepSchedule schedule = chain(10, TensorRole::Gradient);
  EXPECT_EQ(plan_memory(schedule, false).bytes, plan_memory(schedule, false).bytes_unshared);
}

TEST(MemoryPlan, AKeptTensorLivesToTheEnd) {
  StepSchedule schedule = chain(10, TensorRole::Gradient);
  schedule.keep("g1");
  const MemoryPlan plan = plan_memory(schedule, true);
  const auto kept = plan.offsets.at(schedule.id("g1"));
  for (int i = 2; i < 10; ++i) {
    EXPECT_NE(plan.offsets.at(schedule.id("g" + std::to_string(i))), kept) << i;
  }
}

TEST(MemoryPlan, ATensorNobodyTouchesTakesNothing) {
  StepSchedule schedule = chain(2, TensorRole::Gradient);
  schedule.add_tensor("unused", {1000});
  EXPECT_EQ(plan_memory(schedule, true).offsets.count(schedule.id("unused")), 0u);
}

}  // namespace
}  // namespace hugectr
