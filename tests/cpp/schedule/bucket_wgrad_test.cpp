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
  std::vector<std::string> bucketed(std::size_t bytes, const std::vector<std::string>& first = {}) {
    bucket_wgrad(schedule_, "@wgrad", places_, bytes, first);
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

TEST_F(BucketWgrad, SumsThatComeNoSoonerThanGradientsOfTablesAreLast) {
  schedule_.add_tensor("emb@grad", {kSize});
  for (const char* name : {"w3@grad", "w2@grad", "emb@grad", "w1@grad", "w0@grad"}) {
    write(Phase::Backward, name);
  }
  write(Phase::Update, "y");
  StepSchedule same = schedule_;
  EXPECT_EQ(bucketed(100 * sizeof(float), {"emb@grad"}),
            (Lines{"y", "w3@grad", "sum 300 400", "w2@grad", "sum 200 300", "emb@grad", "w1@grad",
                   "w0@grad", "sum 100 200 behind", "sum 0 100 behind", "y"}));
  // A bucket that is full when the gradients of tables are goes behind them, too.
  schedule_ = same;
  std::swap(schedule_.records()[2], schedule_.records()[3]);
  EXPECT_EQ(bucketed(200 * sizeof(float), {"emb@grad"}),
            (Lines{"y", "w3@grad", "emb@grad", "w2@grad", "w1@grad", "w0@grad",
                   "sum 200 400 behind", "sum 0 200 behind", "y"}));
}

TEST_F(BucketWgrad, LargeSumsStayBesideWhatBackwardHasLeft) {
  const std::size_t large = kMostBehind / sizeof(float);
  schedule_.add_tensor("large", {large + kSize}, TensorRole::External);
  for (const char* name : {"emb@grad", "v0@grad", "v1@grad"}) {
    schedule_.add_tensor(name, {name[0] == 'v' && name[1] == '0' ? large : kSize});
  }
  places_ = {{"v0@grad", 0}, {"v1@grad", large}};
  for (const char* name : {"emb@grad", "v1@grad", "v0@grad"}) write(Phase::Backward, name);
  bucket_wgrad(schedule_, "large", places_, 1, {"emb@grad"});
  for (const OpRecord& record : schedule_.records()) {
    EXPECT_NE(record.sum, GradientSum::Behind) << record.layer;
  }
}

TEST_F(BucketWgrad, PlacesOutOfOrderAreRefused) {
  std::swap(places_[0], places_[3]);
  EXPECT_THROW(bucket_wgrad(schedule_, "@wgrad", places_, 4), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
