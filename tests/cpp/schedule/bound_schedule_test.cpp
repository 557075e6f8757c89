// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/bound_schedule.hpp"

#include <gtest/gtest.h>

#include <random>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/ops/add.hpp"
#include "core/cpp/ops/concat.hpp"
#include "core/cpp/ops/elementwise/relu.hpp"
#include "core/cpp/ops/linear.hpp"
#include "core/cpp/ops/slice.hpp"

namespace hugectr {
namespace {

/// y = concat(relu(x w), relu(x w)[:, :2]) and back to dw; `fuse` runs the passes.
std::vector<float> run_schedule(bool fuse, std::size_t* records) {
  auto resources = ResourceManager::create({{0}}, 1);
  const OpContext context = resources->get_local_gpu(0).compute_context();
  auto resource = resources->get_device_memory_resource(0);
  auto arena = DeviceBuffer2::create("test", DeviceAllocator(resource));
  Tensor2<float> x, w, dw, dy;
  arena->reserve({16, 8}, &x, "x");
  arena->reserve({8, 5}, &w, "w");
  arena->reserve({8, 5}, &dw, "dw");
  arena->reserve({16, 7}, &dy, "dy");
  arena->allocate();
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (Tensor2<float>* t : {&x, &w, &dy}) {
    for (std::size_t i = 0; i < t->get_num_elements(); ++i) t->get_ptr()[i] = normal(random);
  }
  std::fill_n(dw.get_ptr(), dw.get_num_elements(), 0.0f);

  constexpr TensorRole kExternal = TensorRole::External, kGradient = TensorRole::Gradient;
  StepSchedule s;
  const TensorRef sx = s.add_tensor("x", {16, 8}, kExternal);
  const TensorRef sw = s.add_tensor("w", {8, 5}, kExternal);
  const TensorRef sdw = s.add_tensor("dw", {8, 5}, kExternal);
  const TensorRef sdy = s.add_tensor("dy", {16, 7}, kExternal);
  const TensorRef z = s.add_tensor("z", {16, 5}), r = s.add_tensor("r", {16, 5});
  const TensorRef r0 = s.add_tensor("r0", {16, 5}), r1 = s.add_tensor("r1", {16, 2});
  const TensorRef y = s.add_tensor("y", {16, 7});
  s.add(Phase::Forward, LinearFwd{.x = sx, .w = sw, .y = z}, "fc");
  s.add(Phase::Forward, ReluFwd{.x = z, .y = r}, "relu");
  s.add(Phase::Forward, SliceFwd{.x = r, .ys = {r0, r1}, .begins = {0, 0}}, "slice");
  s.add(Phase::Forward, ConcatFwd{.xs = {r0, r1}, .y = y}, "concat");
  const TensorRef dr0 = s.add_tensor("dr0", {16, 5}, kGradient);
  const TensorRef dr1 = s.add_tensor("dr1", {16, 2}, kGradient);
  const TensorRef dr = s.add_tensor("dr", {16, 5}, kGradient);
  const TensorRef dz = s.add_tensor("dz", {16, 5}, kGradient);
  s.add(Phase::Backward, SliceFwd{.x = sdy, .ys = {dr0, dr1}, .begins = {0, 5}}, "concat");
  s.add(Phase::Backward, SliceBwd{.dys = {dr0, dr1}, .dx = dr, .begins = {0, 0}}, "slice");
  s.add(Phase::Backward, ReluBwd{.y = r, .dy = dr, .dx = dz}, "relu");
  s.add(Phase::Backward, LinearBwd{.x = sx, .w = sw, .dy = dz, .dw = sdw}, "fc");
  if (fuse) {
    fuse_linear_activation(s);
    make_views(s);
  }
  s.refresh_refs();
  *records = s.records().size();

  BoundSchedule bound(s, context, resource, "test",
                      {{"x", x.ref()}, {"w", w.ref()}, {"dw", dw.ref()}, {"dy", dy.ref()}});
  bound.run(Phase::Forward, Phase::Backward);
  context.stream->synchronize();
  std::vector<float> result(dw.get_ptr(), dw.get_ptr() + dw.get_num_elements());
  const TensorRef out = bound.tensor("y");
  for (std::size_t i = 0; i < out.rows(); ++i) {
    result.insert(result.end(), out.row<float>(i), out.row<float>(i) + out.row_size());
  }
  if (fuse) {
    EXPECT_THROW(bound.tensor("z"), InvalidArgument);
  }
  EXPECT_THROW(bound.tensor("nobody"), InvalidArgument);
  return result;
}

TEST(BoundSchedule, FusedAndUnfusedAgree) {
  std::size_t unfused_records = 0, fused_records = 0;
  const std::vector<float> unfused = run_schedule(false, &unfused_records);
  const std::vector<float> fused = run_schedule(true, &fused_records);
  EXPECT_EQ(unfused_records, 8u);
  EXPECT_EQ(fused_records, 4u);  // linear+relu, one copy for the concat, slice_bwd, linear_bwd
  ASSERT_EQ(fused.size(), unfused.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < fused.size(); ++i) {
    EXPECT_NEAR(fused[i], unfused[i], 1e-5f * std::abs(unfused[i]) + 1e-6f) << i;
    sum += std::abs(fused[i]);
  }
  EXPECT_GT(sum, 1.0);
}

/// Who waits for some gradients is told before the others are made.
TEST(BoundSchedule, TellsWhenWatchedTensorsAreWritten) {
  auto resources = ResourceManager::create({{0}}, 1);
  const OpContext context = resources->get_local_gpu(0).compute_context();
  std::vector<float> dy{1, 2, 3};
  StepSchedule s;
  const TensorRef sdy = s.add_tensor("dy", {3}, TensorRole::External);
  const TensorRef a = s.add_tensor("a", {3}), b = s.add_tensor("b", {3}),
                  c = s.add_tensor("c", {3});
  s.add(Phase::Forward, AddFwd{.xs = {sdy, sdy}, .y = b}, "first");  // b is written again
  s.add(Phase::Backward, AddFwd{.xs = {sdy, sdy}, .y = a}, "second");
  s.add(Phase::Backward, AddFwd{.xs = {a, a}, .y = b}, "third");
  s.add(Phase::Backward, AddFwd{.xs = {b, b}, .y = c}, "fourth");
  for (const char* name : {"a", "b", "c"}) s.keep(name);
  s.refresh_refs();
  BoundSchedule bound(s, context, resources->get_device_memory_resource(0), "test",
                      {{"dy", make_ref(dy.data(), {3})}});
  EXPECT_FALSE(bound.watch({"dy"})) << "no record writes it";
  EXPECT_FALSE(bound.watch({}));
  ASSERT_TRUE(bound.watch({"b", "a"}));
  int told = 0;
  bound.run(Phase::Forward, Phase::Backward, [&] {
    ++told;
    context.stream->synchronize();
    EXPECT_EQ(bound.tensor("b").ptr<float>()[2], 12.0f);
    EXPECT_EQ(bound.tensor("c").ptr<float>()[2], 0.0f);
  });
  context.stream->synchronize();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(bound.tensor("c").ptr<float>()[2], 24.0f);
}

TEST(BoundSchedule, MissingAndWrongExternalMemoryIsNamed) {
  auto resources = ResourceManager::create({{0}}, 1);
  const OpContext context = resources->get_local_gpu(0).compute_context();
  StepSchedule s;
  const TensorRef x = s.add_tensor("x", {4, 2}, TensorRole::External);
  const TensorRef y = s.add_tensor("y", {4, 2});
  s.add(Phase::Forward, ReluFwd{.x = x, .y = y}, "relu");
  const auto bind = [&](const std::map<std::string, TensorRef>& external) {
    BoundSchedule(s, context, resources->get_device_memory_resource(0), "test", external);
  };
  try {
    bind({});
    FAIL();
  } catch (const InvalidArgument& e) {
    EXPECT_NE(std::string(e.what()).find("'x'"), std::string::npos) << e.what();
  }
  std::vector<float> wrong(6);
  EXPECT_THROW(bind({{"x", make_ref(wrong.data(), {3, 2})}}), InvalidArgument);
}

TEST(StepSchedule, NamesAreUniqueAndUnknownOnesListed) {
  StepSchedule s;
  s.add_tensor("concat1", {4});
  EXPECT_THROW(s.add_tensor("concat1", {4}), InvalidArgument);
  try {
    s.ref("concat2");
    FAIL();
  } catch (const InvalidArgument& e) {
    EXPECT_NE(std::string(e.what()).find("concat1"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace hugectr
