// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/bucket_wgrad.hpp"

#include <gtest/gtest.h>

#include "core/cpp/base/error.hpp"
#include "core/cpp/comm/collective_ops.hpp"
#include "core/cpp/ops/add.hpp"

namespace hugectr {
namespace {

/// Four parameters of 100 floats that backward writes from the last to the first.
class BucketWgrad : public testing::Test {
 protected:
  static constexpr std::size_t kParameters = 4, kSize = 100;

  void SetUp() override {
    constexpr TensorRole kExternal = TensorRole::External;
    x_ = schedule_.add_tensor("x", {kSize}, kExternal);
    schedule_.add_tensor("@wgrad", {kParameters * kSize}, kExternal);
    for (std::size_t i = 0; i < kParameters; ++i) {
      places_.push_back({concat("w", i, "@grad"), i * kSize});
      schedule_.add_tensor(places_.back().name, {kSize}, kExternal);
    }
    schedule_.add_tensor("y", {kSize});
    write(Phase::Forward, "y");
  }
  void write(Phase phase, const std::string& name) {
    schedule_.add(phase, AddFwd{.xs = {x_, x_}, .y = schedule_.ref(name)}, name);
  }
  /// Records as text: layers, and for a sum the elements it covers.
  std::vector<std::string> bucketed(std::size_t bytes, std::size_t behind = 0) {
    bucket_wgrad(schedule_, "@wgrad", places_, bytes, behind);
    std::vector<std::string> result;
    for (const OpRecord& record : schedule_.records()) {
      const AllReduce* sum = record.op.get_if<AllReduce>();
      if (!sum) {
        EXPECT_EQ(record.sum, GradientSum::None);
        result.push_back(record.layer);
        continue;
      }
      EXPECT_NE(record.sum, GradientSum::None);
      EXPECT_EQ(record.phase, Phase::Backward);
      const ScheduleTensor& part = schedule_.tensors()[static_cast<std::size_t>(sum->data.id)];
      EXPECT_EQ(part.role, TensorRole::View);
      EXPECT_EQ(part.base, schedule_.id("@wgrad"));
      const char* where = record.sum == GradientSum::Behind ? " behind" : "";
      result.push_back(concat("sum ", part.offset, " ", part.offset + part.shape[0], where));
    }
    return result;
  }

  StepSchedule schedule_;
  TensorRef x_;
  std::vector<GradientPlace> places_;
};

using Lines = std::vector<std::string>;

TEST_F(BucketWgrad, EachSumFollowsTheLastWriterOfItsBucket) {
  for (const char* name : {"w3@grad", "w2@grad", "w1@grad", "w0@grad"}) {
    write(Phase::Backward, name);
  }
  write(Phase::Update, "y");
  EXPECT_EQ(bucketed(150 * sizeof(float)), (Lines{"y", "w3@grad", "w2@grad", "sum 200 400",
                                                  "w1@grad", "w0@grad", "sum 0 200", "y"}));
}

TEST_F(BucketWgrad, TheRestIsASmallBucketAndOneBucketIsEnoughForAll) {
  for (const char* name : {"w3@grad", "w2@grad", "w1@grad", "w0@grad"}) {
    write(Phase::Backward, name);
  }
  StepSchedule same = schedule_;
  EXPECT_EQ(bucketed(300 * sizeof(float)),
            (Lines{"y", "w3@grad", "w2@grad", "w1@grad", "sum 100 400", "w0@grad", "sum 0 100"}));
  schedule_ = same;
  EXPECT_EQ(bucketed(1u << 20),
            (Lines{"y", "w3@grad", "w2@grad", "w1@grad", "w0@grad", "sum 0 400"}));
}

TEST_F(BucketWgrad, SumsKeepTheOrderOfTheBuckets) {
  // w3 is written again at the end: its sum waits, and so do the others behind it.
  for (const char* name : {"w3@grad", "w2@grad", "w1@grad", "w0@grad", "w3@grad"}) {
    write(Phase::Backward, name);
  }
  EXPECT_EQ(bucketed(100 * sizeof(float)),
            (Lines{"y", "w3@grad", "w2@grad", "w1@grad", "w0@grad", "w3@grad", "sum 300 400",
                   "sum 200 300", "sum 100 200", "sum 0 100"}));
}

TEST_F(BucketWgrad, AWriterOfTheWholeBufferCountsForAllBuckets) {
  for (const char* name : {"w3@grad", "w2@grad"}) write(Phase::Backward, name);
  schedule_.add(Phase::Backward,
                AddFwd{.xs = {schedule_.ref("@wgrad")}, .y = schedule_.ref("@wgrad")}, "all");
  // Nobody writes w1 and w0: they are ready when the rest is.
  EXPECT_EQ(bucketed(200 * sizeof(float)),
            (Lines{"y", "w3@grad", "w2@grad", "all", "sum 200 400", "sum 0 200"}));
}

TEST_F(BucketWgrad, WhatBackwardWritesLastIsOneBucketBehindIt) {
  for (const char* name : {"w3@grad", "w2@grad", "w1@grad", "w0@grad"}) {
    write(Phase::Backward, name);
  }
  write(Phase::Update, "y");
  const StepSchedule same = schedule_;
  const auto with = [&](std::size_t bytes, std::size_t behind) {
    schedule_ = same;
    return bucketed(bytes * sizeof(float), behind * sizeof(float));
  };
  const Lines two = {"y",       "w3@grad", "sum 300 400",      "w2@grad", "sum 200 300",
                     "w1@grad", "w0@grad", "sum 0 200 behind", "y"};
  EXPECT_EQ(with(100, 200), two);
  EXPECT_EQ(with(100, 299), two);  // whole parameters
  EXPECT_EQ(with(1000, 200), (Lines{"y", "w3@grad", "w2@grad", "sum 200 400", "w1@grad", "w0@grad",
                                    "sum 0 200 behind", "y"}));
  EXPECT_EQ(with(100, 400),
            (Lines{"y", "w3@grad", "w2@grad", "w1@grad", "w0@grad", "sum 0 400 behind", "y"}));
  // A bucket ends where those behind begin, however little it has.
  EXPECT_EQ(with(300, 300), (Lines{"y", "w3@grad", "sum 300 400", "w2@grad", "w1@grad", "w0@grad",
                                   "sum 0 300 behind", "y"}));
  EXPECT_EQ(with(400, 99),
            (Lines{"y", "w3@grad", "w2@grad", "w1@grad", "w0@grad", "sum 0 400", "y"}));
}

TEST_F(BucketWgrad, PlacesOutOfOrderAreRefused) {
  std::swap(places_[0], places_[3]);
  EXPECT_THROW(bucket_wgrad(schedule_, "@wgrad", places_, 4), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
