// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/stage_clock.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "core/cpp/device/cpu_stream.hpp"

namespace hugectr {
namespace {

/// A stream whose clock is what a test sets; marks take it when they are stamped.
class SetClockStream final : public Stream {
 public:
  DeviceId device() const override { return {DeviceType::Cpu, 0}; }
  void submit(std::function<void()> task) override { task(); }
  void copy(void*, const void*, std::size_t) override {}
  void copy_scalars(void*, const void*, std::size_t) override {}
  void fill_zero(void*, std::size_t) override {}
  void record(Event&) override {}
  void wait(Event&) override {}
  void synchronize() override {}
  std::unique_ptr<TimeMark> create_time_mark() override {
    ++marks;
    return std::make_unique<Mark>();
  }
  void stamp(TimeMark& mark) override { static_cast<Mark&>(mark).at = now; }

  double now = 0.0;
  int marks = 0;

 private:
  struct Mark final : TimeMark {
    double seconds_since(TimeMark& earlier) override { return at - static_cast<Mark&>(earlier).at; }
    double at = 0.0;
  };
};

using Stages = std::vector<std::pair<std::string, double>>;

TEST(StageClock, AddsUpStagesAndWhatLiesBetweenRounds) {
  SetClockStream stream;
  StageClock clock({"a", "b"});
  stream.now = 100.0;
  const auto step = [&](double a, double b, double idle) {
    clock.begin(stream);
    stream.now += a;
    clock.end_stage(stream);
    stream.now += b;
    clock.end_stage(stream);
    stream.now += idle;
  };
  step(1.0, 2.0, 0.5);
  step(3.0, 4.0, 0.25);
  step(5.0, 6.0, 7.0);
  EXPECT_EQ(clock.take(), (Stages{{"a", 9.0}, {"b", 12.0}, {"idle", 0.75}}));
  // The pause in which the clock was read is nobody's.
  step(1.0, 1.0, 0.5);
  step(1.0, 1.0, 0.0);
  EXPECT_EQ(clock.take(), (Stages{{"a", 2.0}, {"b", 2.0}, {"idle", 0.5}}));
  EXPECT_EQ(clock.take(), (Stages{{"a", 0.0}, {"b", 0.0}, {"idle", 0.0}}));
}

TEST(StageClock, ManyRoundsUseTheSameMarks) {
  SetClockStream stream;
  StageClock clock({"a"});
  int after_a_while = 0;
  for (int i = 0; i < 1000; ++i) {
    clock.begin(stream);
    stream.now += 2.0;
    clock.end_stage(stream);
    stream.now += 1.0;
    if (i == 200) after_a_while = stream.marks;
  }
  EXPECT_EQ(stream.marks, after_a_while);
  EXPECT_EQ(clock.take(), (Stages{{"a", 2000.0}, {"idle", 999.0}}));
}

TEST(StageClock, AnUnfinishedRoundCountsWhatItHas) {
  SetClockStream stream;
  StageClock clock({"a", "b"});
  clock.begin(stream);
  stream.now += 3.0;
  clock.end_stage(stream);
  EXPECT_EQ(clock.take(), (Stages{{"a", 3.0}, {"b", 0.0}, {"idle", 0.0}}));
}

TEST(StageClock, OnTheCpuItIsTheTimeOfTheStreamNotOfTheCaller) {
  const auto stream = make_cpu_stream({DeviceType::Cpu, 0}, "test");
  StageClock clock({"work"});
  clock.begin(*stream);
  stream->submit([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  clock.end_stage(*stream);
  const Stages stages = clock.take();
  EXPECT_GE(stages[0].second, 0.02);
}

}  // namespace
}  // namespace hugectr
