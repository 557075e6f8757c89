// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/cpp/ops/cast.hpp"
#include "core/cpp/ops/elementwise/relu.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/reshape.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

constexpr auto kFloat = TensorScalarType::Float32;
constexpr auto kHalf = TensorScalarType::Float16;
constexpr auto kBrain = TensorScalarType::BFloat16;

/// An op that works in 16 bits but for its statistics, and adds to a third tensor.
struct Mix {
  static constexpr const char* kName = "mix_for_test";
  static constexpr std::string_view k16BitFields = "x w y sum";
  TensorRef x, w, y, sum, statistics;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.optional("w", Access::In, w);
    v.tensor("y", Access::Out, y);
    v.optional("sum", Access::InOut, sum);
    v.optional("statistics", Access::In, statistics);
  }
  void check() const {}
};

/// An op of float32 alone.
struct Plain {
  static constexpr const char* kName = "plain_for_test";
  TensorRef x, y;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("y", Access::Out, y);
  }
  void check() const {}
};

TensorRef in_16_bits(StepSchedule& s, const std::string& name, const Shape& shape = {4, 8},
                     TensorRole role = TensorRole::Activation) {
  const TensorRef ref = s.add_tensor(name, shape, role);
  s.let_be_16_bits(ref);
  return ref;
}

const ScheduleTensor& tensor(StepSchedule& s, const std::string& name) {
  return s.tensors()[static_cast<std::size_t>(s.id(name))];
}

/// "op: field field -> field" of every record, tensors by name.
std::vector<std::string> text(const StepSchedule& s) {
  std::vector<std::string> lines;
  for (const OpRecord& record : s.records()) {
    std::string in = std::string(record.op.name()) + ":", out = " ->";
    record.op.for_each_tensor([&](const char*, Access access, const TensorRef& ref) {
      const std::string& name = s.tensors()[static_cast<std::size_t>(ref.id)].name;
      EXPECT_EQ(ref.dtype, s.tensors()[static_cast<std::size_t>(ref.id)].dtype) << name;
      if (access != Access::Out) in += " " + name;
      if (access != Access::In) out += " " + name;
    });
    lines.push_back(in + out);
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(CastTo16Bits, AChainIn16BitsNeedsNoCasts) {
  StepSchedule s;
  const TensorRef x = in_16_bits(s, "x"), h = in_16_bits(s, "h"), y = in_16_bits(s, "y");
  const TensorRef dy = in_16_bits(s, "y@grad", {4, 8}, TensorRole::Gradient);
  const TensorRef dh = in_16_bits(s, "h@grad", {4, 8}, TensorRole::Gradient);
  s.add(Phase::Forward, Mix{.x = x, .y = h}, "a");
  s.add(Phase::Forward, ReluFwd{.x = h, .y = y}, "b");
  s.add(Phase::Backward, ReluBwd{.y = y, .dy = dy, .dx = dh}, "b");
  cast_to_16_bits(s, kBrain);
  EXPECT_EQ(text(s),
            (Lines{"mix_for_test: x -> h", "relu_fwd: h -> y", "relu_bwd: y y@grad -> h@grad"}));
  for (const char* name : {"x", "h", "y", "y@grad", "h@grad"}) {
    EXPECT_EQ(tensor(s, name).dtype, kBrain) << name;
  }
}

TEST(CastTo16Bits, OpsOfFloat32AloneGetCastsOnBothSides) {
  StepSchedule s;
  const TensorRef x = in_16_bits(s, "x"), h = in_16_bits(s, "h"), y = in_16_bits(s, "y");
  s.add(Phase::Forward, ReluFwd{.x = x, .y = h}, "a");
  s.add(Phase::Forward, Plain{.x = h, .y = y}, "b");
  s.add(Phase::Forward, ReluFwd{.x = y, .y = in_16_bits(s, "z")}, "c");
  cast_to_16_bits(s, kHalf);
  ASSERT_EQ(s.records().size(), 5u);
  const Lines lines = text(s);
  EXPECT_EQ(lines[1].substr(0, 18), "cast: h -> h@float");
  EXPECT_EQ(lines[2].substr(0, 27), "plain_for_test: h@float32_4");
  EXPECT_EQ(lines[3].substr(lines[3].size() - 5), " -> y");
  EXPECT_EQ(lines[4], "relu_fwd: y -> z");
  EXPECT_EQ(tensor(s, "y").dtype, kHalf);
}

TEST(CastTo16Bits, WhatNo16BitFieldUsesStaysFloat32) {
  StepSchedule s;
  const TensorRef x = in_16_bits(s, "x"), h = in_16_bits(s, "h"), y = in_16_bits(s, "y");
  s.add(Phase::Forward, Plain{.x = x, .y = h}, "a");
  s.add(Phase::Forward, Plain{.x = h, .y = y}, "b");
  cast_to_16_bits(s, kHalf);
  EXPECT_EQ(text(s), (Lines{"plain_for_test: x -> h", "plain_for_test: h -> y"}));
  EXPECT_EQ(tensor(s, "h").dtype, kFloat);
}

TEST(CastTo16Bits, ACastServesAllReadersOfAPhaseUntilTheTensorIsWrittenAgain) {
  StepSchedule s;
  const TensorRef x = in_16_bits(s, "x"), h = in_16_bits(s, "h");
  const TensorRef a = s.add_tensor("a", {4, 8}), b = s.add_tensor("b", {4, 8});
  s.add(Phase::Forward, ReluFwd{.x = x, .y = h}, "relu");
  s.add(Phase::Forward, Plain{.x = h, .y = a}, "a");
  s.add(Phase::Forward, Plain{.x = h, .y = b}, "b");
  s.add(Phase::Forward, ReluFwd{.x = x, .y = h}, "again");
  s.add(Phase::Forward, Plain{.x = h, .y = a}, "c");
  s.add(Phase::Backward, Plain{.x = h, .y = b}, "d");
  cast_to_16_bits(s, kBrain);
  int casts = 0;
  for (const OpRecord& record : s.records()) casts += record.op.get_if<Cast>() ? 1 : 0;
  EXPECT_EQ(casts, 3);  // for a and b, for c, for the backward of d
}

TEST(CastTo16Bits, WhatIsReadAndWrittenIsCastBothWays) {
  StepSchedule s;
  const TensorRef x = in_16_bits(s, "x"), y = in_16_bits(s, "y");
  const TensorRef fixed = s.add_tensor("fixed", {4, 8}, TensorRole::Gradient);
  s.add(Phase::Forward, Mix{.x = x, .y = y, .sum = fixed}, "a");
  cast_to_16_bits(s, kBrain);
  const Lines lines = text(s);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "cast: fixed -> fixed@bfloat16_3");
  EXPECT_EQ(lines[1], "mix_for_test: x fixed@bfloat16_3 -> y fixed@bfloat16_3");
  EXPECT_EQ(lines[2], "cast: fixed@bfloat16_3 -> fixed");
  EXPECT_EQ(tensor(s, "fixed").dtype, kFloat);
}

TEST(CastTo16Bits, ParametersKeepTheirMastersAndStatisticsTheirType) {
  StepSchedule s;
  const TensorRef x = in_16_bits(s, "x"), y = in_16_bits(s, "y"), z = in_16_bits(s, "z");
  const TensorRef w = in_16_bits(s, "w", {8}, TensorRole::External);
  const TensorRef mean = s.add_tensor("mean", {8}, TensorRole::External);
  s.add(Phase::Forward, Mix{.x = x, .w = w, .y = y, .statistics = mean}, "a");
  s.add(Phase::Forward, Plain{.x = w, .y = z}, "b");
  cast_to_16_bits(s, kHalf);
  EXPECT_EQ(text(s), (Lines{"mix_for_test: x w@16 mean -> y", "plain_for_test: w -> z"}));
  EXPECT_EQ(tensor(s, "w").dtype, kFloat);
  EXPECT_EQ(tensor(s, "w@16").dtype, kHalf);
  EXPECT_EQ(tensor(s, "w@16").role, TensorRole::External);
  EXPECT_EQ(tensor(s, "mean").dtype, kFloat);
}

TEST(CastTo16Bits, WhatReadsALabelStaysFloat32) {
  StepSchedule s;
  const TensorRef label = s.add_tensor("label", {4, 8});
  const TensorRef part = in_16_bits(s, "part"), h = in_16_bits(s, "h");
  s.add(Phase::Forward, ReshapeFwd{.x = label, .y = part}, "slice");
  s.add(Phase::Forward, ReluFwd{.x = label, .y = h}, "relu");
  cast_to_16_bits(s, kHalf);
  EXPECT_EQ(text(s), (Lines{"reshape_fwd: label -> part", "relu_fwd: label -> h"}));
}

TEST(CastTo16Bits, ACastLayerTakesTensorsAsTheyAre) {
  StepSchedule s;
  const TensorRef x = in_16_bits(s, "x"), h = in_16_bits(s, "h");
  const TensorRef wide = s.add_tensor("wide", {4, 8});
  s.add(Phase::Forward, ReluFwd{.x = x, .y = h}, "relu");
  s.add(Phase::Forward, Cast{.x = h, .y = wide}, "cast");
  cast_to_16_bits(s, kHalf);
  EXPECT_EQ(text(s), (Lines{"relu_fwd: x -> h", "cast: h -> wide"}));
  EXPECT_EQ(tensor(s, "wide").dtype, kFloat);
}

TEST(CastTo16Bits, OddRowsAreAligned) {
  StepSchedule s;
  const TensorRef odd = in_16_bits(s, "odd", {4, 13}), out = in_16_bits(s, "out", {4, 13});
  const TensorRef narrow = in_16_bits(s, "narrow", {4, 3}), n2 = in_16_bits(s, "n2", {4, 3});
  const TensorRef steps = in_16_bits(s, "steps", {4, 3, 5}), s2 = in_16_bits(s, "s2", {4, 3, 5});
  s.add(Phase::Forward, ReluFwd{.x = odd, .y = out}, "odd");
  s.add(Phase::Forward, ReluFwd{.x = narrow, .y = n2}, "narrow");
  s.add(Phase::Forward, ReluFwd{.x = steps, .y = s2}, "steps");
  cast_to_16_bits(s, kHalf);
  EXPECT_EQ(tensor(s, "odd").row_stride, 16u);
  EXPECT_EQ(s.ref("odd").row_stride, 16u);
  EXPECT_EQ(memory_elements(tensor(s, "odd")), 64u);
  EXPECT_EQ(s.ref("narrow").row_stride, 3u);
  EXPECT_EQ(s.ref("steps").row_stride, 15u);
  const MemoryPlan plan = plan_memory(s, true);
  EXPECT_GE(plan.offsets.size(), 6u);
  EXPECT_EQ(s.records()[0].op.get_if<ReluFwd>()->y.row_stride, 16u);
}

TEST(CastTo16Bits, OnlyTwoTypes) {
  StepSchedule s;
  EXPECT_THROW(cast_to_16_bits(s, kFloat), InvalidArgument);
  EXPECT_THROW(cast_to_16_bits(s, TensorScalarType::Int32), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
