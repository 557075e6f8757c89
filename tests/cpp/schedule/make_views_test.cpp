// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/cpp/ops/concat.hpp"
#include "core/cpp/ops/elementwise/relu.hpp"
#include "core/cpp/ops/linear.hpp"
#include "core/cpp/ops/reshape.hpp"
#include "core/cpp/ops/slice.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

const ScheduleTensor& tensor(const StepSchedule& schedule, const char* name) {
  return schedule.tensors()[static_cast<std::size_t>(schedule.id(name))];
}

TEST(MakeViews, AnEmbeddingIsWrittenStraightIntoItsConcat) {
  StepSchedule s;
  const TensorRef emb = s.add_tensor("emb", {4, 3, 2});
  const TensorRef flat = s.add_tensor("flat", {4, 6});
  const TensorRef dense = s.add_tensor("dense", {4, 5});
  const TensorRef both = s.add_tensor("both", {4, 11});
  s.add(Phase::Forward, ReshapeFwd{.x = emb, .y = flat}, "reshape");
  s.add(Phase::Forward, ConcatFwd{.xs = {flat, dense}, .y = both}, "concat");
  make_views(s);
  EXPECT_TRUE(s.records().empty());
  for (const char* name : {"emb", "flat", "dense"}) {
    EXPECT_EQ(tensor(s, name).base, s.id("both")) << name;
    EXPECT_EQ(tensor(s, name).row_stride, 11u) << name;
  }
  EXPECT_EQ(tensor(s, "emb").offset, 0u);
  EXPECT_EQ(tensor(s, "dense").offset, 6u);
}

TEST(MakeViews, ATensorInTwoConcatsIsCopiedIntoTheSecond) {
  StepSchedule s;
  const TensorRef a = s.add_tensor("a", {4, 2});
  const TensorRef b = s.add_tensor("b", {4, 3});
  const TensorRef first = s.add_tensor("first", {4, 5});
  const TensorRef second = s.add_tensor("second", {4, 5});
  s.add(Phase::Forward, ConcatFwd{.xs = {a, b}, .y = first}, "first");
  s.add(Phase::Forward, ConcatFwd{.xs = {b, a}, .y = second}, "second");
  make_views(s);
  ASSERT_EQ(s.records().size(), 2u);  // copies of b and a into columns of `second`
  EXPECT_STREQ(s.records()[0].op.name(), "reshape_fwd");
  EXPECT_EQ(tensor(s, "a").base, s.id("first"));
}

TEST(MakeViews, ConcatsNest) {
  StepSchedule s;
  const TensorRef a = s.add_tensor("a", {4, 2});
  const TensorRef b = s.add_tensor("b", {4, 3});
  const TensorRef c = s.add_tensor("c", {4, 4});
  const TensorRef inner = s.add_tensor("inner", {4, 5});
  const TensorRef outer = s.add_tensor("outer", {4, 9});
  s.add(Phase::Forward, ConcatFwd{.xs = {a, b}, .y = inner}, "inner");
  s.add(Phase::Forward, ConcatFwd{.xs = {c, inner}, .y = outer}, "outer");
  make_views(s);
  EXPECT_TRUE(s.records().empty());
  EXPECT_EQ(tensor(s, "b").base, s.id("outer"));
  EXPECT_EQ(tensor(s, "b").offset, 6u);
  EXPECT_EQ(tensor(s, "b").row_stride, 9u);
}

TEST(MakeViews, OverlappingSlicesAreViews) {
  StepSchedule s;
  const TensorRef x = s.add_tensor("x", {4, 6});
  const TensorRef y0 = s.add_tensor("y0", {4, 6});
  const TensorRef y1 = s.add_tensor("y1", {4, 3});
  s.add(Phase::Forward, SliceFwd{.x = x, .ys = {y0, y1}, .begins = {0, 2}}, "slice");
  make_views(s);
  EXPECT_TRUE(s.records().empty());
  EXPECT_EQ(tensor(s, "y1").offset, 2u);
  EXPECT_EQ(tensor(s, "y1").row_stride, 6u);
}

TEST(MakeViews, AReshapeToOtherRowsPinsItsSource) {
  StepSchedule s;
  const TensorRef x = s.add_tensor("x", {4, 6});
  const TensorRef rows = s.add_tensor("rows", {8, 3});
  const TensorRef d = s.add_tensor("d", {4, 1});
  const TensorRef both = s.add_tensor("both", {4, 7});
  s.add(Phase::Forward, ReshapeFwd{.x = x, .y = rows}, "reshape");
  s.add(Phase::Forward, ConcatFwd{.xs = {x, d}, .y = both}, "concat");
  make_views(s);
  EXPECT_EQ(tensor(s, "rows").base, s.id("x"));
  EXPECT_EQ(tensor(s, "x").base, -1);  // strided rows would tear `rows` apart
  ASSERT_EQ(s.records().size(), 1u);   // so x is copied
  EXPECT_EQ(tensor(s, "d").base, s.id("both"));
}

TEST(MakeViews, StepsOfALinearKeepTheirRowsTogether) {
  StepSchedule s;
  const TensorRef emb = s.add_tensor("emb", {4, 3, 2});
  const TensorRef flat = s.add_tensor("flat", {4, 6});
  const TensorRef dense = s.add_tensor("dense", {4, 1});
  const TensorRef both = s.add_tensor("both", {4, 7});
  const TensorRef w = s.add_tensor("w", {2, 5}, TensorRole::External);
  const TensorRef y = s.add_tensor("y", {4, 3, 5});
  s.add(Phase::Forward, ReshapeFwd{.x = emb, .y = flat}, "reshape");
  s.add(Phase::Forward, ConcatFwd{.xs = {flat, dense}, .y = both}, "concat");
  s.add(Phase::Forward, LinearFwd{.x = emb, .w = w, .y = y}, "linear");
  make_views(s);
  EXPECT_EQ(tensor(s, "emb").base, -1);  // in `both` its samples would lie 7 elements apart
  EXPECT_EQ(tensor(s, "flat").base, s.id("emb"));
  EXPECT_EQ(tensor(s, "dense").base, s.id("both"));
  EXPECT_EQ(s.records().size(), 2u);  // a copy of flat, and the linear
}

TEST(MakeViews, ExternalMemoryIsNotMoved) {
  StepSchedule s;
  const TensorRef x = s.add_tensor("x", {4, 2}, TensorRole::External);
  const TensorRef d = s.add_tensor("d", {4, 1});
  const TensorRef both = s.add_tensor("both", {4, 3});
  s.add(Phase::Forward, ConcatFwd{.xs = {x, d}, .y = both}, "concat");
  make_views(s);
  EXPECT_EQ(s.records().size(), 1u);
  EXPECT_EQ(tensor(s, "x").role, TensorRole::External);
}

TEST(MakeViews, KeptTensorsKeepWhatTheyLieIn) {
  StepSchedule s;
  const TensorRef d_both = s.add_tensor("both@grad", {4, 5}, TensorRole::Gradient);
  const TensorRef d_emb = s.add_tensor("emb@grad", {4, 3}, TensorRole::Gradient);
  const TensorRef d_dense = s.add_tensor("dense@grad", {4, 2}, TensorRole::Gradient);
  s.keep("emb@grad");
  s.add(Phase::Backward, SliceFwd{.x = d_both, .ys = {d_emb, d_dense}, .begins = {0, 3}}, "concat");
  make_views(s);
  EXPECT_TRUE(s.records().empty());
  EXPECT_TRUE(tensor(s, "both@grad").kept);
}

}  // namespace
}  // namespace hugectr
