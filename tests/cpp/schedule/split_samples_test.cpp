// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/split_samples.hpp"

#include <gtest/gtest.h>

#include "core/cpp/base/error.hpp"
#include "core/cpp/ops/add.hpp"

namespace hugectr {
namespace {

using Lines = std::vector<std::string>;

/// Forward makes y of x (4 samples of 6 numbers, rows of 8), Loss a sum, Backward a gradient of x
/// by way of scratch, and that of w.
class SplitSamples : public testing::Test {
 protected:
  void SetUp() override {
    schedule_.add_tensor("x", {4, 6});
    schedule_.tensors()[0].row_stride = 8;
    schedule_.keep("x");
    const TensorRef columns = schedule_.add_tensor("columns", {4, 2}, TensorRole::View);
    ScheduleTensor& view = schedule_.tensors()[static_cast<std::size_t>(columns.id)];
    view.base = schedule_.id("x");
    view.offset = 3;
    view.row_stride = 8;
    schedule_.add_tensor("y", {4, 2});
    schedule_.add_tensor("@weight", {4}, TensorRole::External);
    schedule_.add_tensor("@loss", {1}, TensorRole::External);
    schedule_.add_tensor("w@grad", {4, 2}, TensorRole::External);
    schedule_.add_tensor("scratch", {4, 2}, TensorRole::Gradient);
    schedule_.add_tensor("once@scratch", {1}, TensorRole::Gradient);
    add(Phase::Forward, "columns", "y");
    add(Phase::Loss, "@weight", "@loss");
    once(Phase::Loss, "@loss", "once@scratch");
    once(Phase::Backward, "w@grad", "w@grad");
    add(Phase::Backward, "y", "scratch");
    add(Phase::Backward, "scratch", "w@grad");
    add(Phase::Update, "w@grad", "w@grad");
  }
  void add(Phase phase, const std::string& from, const std::string& to) {
    schedule_.add(phase, AddFwd{.xs = {schedule_.ref(from)}, .y = schedule_.ref(to)}, to);
  }
  void once(Phase phase, const std::string& from, const std::string& to) {
    schedule_.add_once(phase, AddFwd{.xs = {schedule_.ref(from)}, .y = schedule_.ref(to)}, to);
  }
  void split(std::size_t count) { split_samples(schedule_, count, {{"@weight"}, {"@loss"}}); }
  const ScheduleTensor& tensor(const std::string& name) const {
    return schedule_.tensors()[static_cast<std::size_t>(schedule_.id(name))];
  }
  /// Records as text: "x y > z".
  Lines records() const {
    Lines lines;
    for (const OpRecord& record : schedule_.records()) {
      const AddFwd* op = record.op.get_if<AddFwd>();
      std::string line;
      for (const TensorRef& x : op->xs) line += name_of(x) + " ";
      lines.push_back(line + "> " + name_of(op->y));
    }
    return lines;
  }
  std::string name_of(const TensorRef& ref) const {
    const ScheduleTensor& tensor = schedule_.tensors()[static_cast<std::size_t>(ref.id)];
    EXPECT_EQ(ref.shape, tensor.shape) << tensor.name;
    return tensor.name;
  }

  StepSchedule schedule_;
};

TEST_F(SplitSamples, RecordsRunOnceAMicroBatchButForThoseOfTheStep) {
  split(2);
  EXPECT_EQ(records(), (Lines{
                           "columns@micro0 > y@micro0",
                           "columns@micro1 > y@micro1",
                           "@weight@micro0 > @loss@micro0",
                           "@weight@micro1 > @loss@micro1",
                           "@loss@micro0 @loss@micro1 > @loss",
                           "@loss > once@scratch",
                           "w@grad > w@grad",
                           "y@micro0 > scratch@micro0",
                           "scratch@micro0 > w@grad",
                           "y@micro1 > scratch@micro1",
                           "scratch@micro1 > w@grad",
                           "w@grad > w@grad",
                       }));
}

TEST_F(SplitSamples, NamesAreThoseOfAllSamplesAndPartsTheirRows) {
  split(3);
  EXPECT_EQ(tensor("x").shape, (Shape{12, 6}));
  EXPECT_EQ(tensor("columns").shape, (Shape{12, 2}));
  EXPECT_EQ(tensor("y").shape, (Shape{12, 2}));
  EXPECT_EQ(tensor("@weight").shape, (Shape{12}));
  EXPECT_EQ(tensor("w@grad").shape, (Shape{4, 2}));
  EXPECT_EQ(tensor("once@scratch").shape, (Shape{1}));
  const ScheduleTensor& part = tensor(name_in_micro_batch("columns", 2));
  EXPECT_EQ(part.role, TensorRole::View);
  EXPECT_EQ(part.base, schedule_.id("x"));
  EXPECT_EQ(part.shape, (Shape{4, 2}));
  EXPECT_EQ(part.row_stride, 8u);
  EXPECT_EQ(part.offset, 3u + 2 * 4 * 8);
  EXPECT_EQ(tensor("y@micro1").offset, 8u);
  EXPECT_EQ(tensor("@weight@micro1").offset, 4u);
  EXPECT_EQ(tensor("scratch@micro1").role, TensorRole::Gradient);
  EXPECT_EQ(tensor("scratch@micro1").base, -1);
}

TEST_F(SplitSamples, WhatAStepReadsOnceHasToBeOfAllSamples) {
  once(Phase::Backward, "scratch", "once@scratch");
  try {
    split(2);
    FAIL() << "no error";
  } catch (const InvalidArgument& e) {
    EXPECT_NE(std::string(e.what()).find("'scratch' is read by what runs once"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace hugectr
