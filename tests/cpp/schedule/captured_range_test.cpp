// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/captured_range.hpp"

#include <gtest/gtest.h>

#include "core/cpp/comm/collective_ops.hpp"
#include "core/cpp/device/op_timeline.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/ops/add.hpp"

namespace hugectr {
namespace {

/// Runs tasks at once and can capture them, as a CUDA stream; counts what it is asked for.
class CapturingStream final : public Stream {
 public:
  DeviceId device() const override { return {DeviceType::Cpu, 0}; }
  void submit(std::function<void()> task) override {
    if (recording_) return recording_->push_back(std::move(task));
    ++submitted;
    task();
  }
  void copy(void*, const void*, std::size_t) override {}
  void copy_scalars(void*, const void*, std::size_t) override {}
  void fill_zero(void*, std::size_t) override {}
  void record(Event&) override {}
  void wait(Event&) override {}
  void synchronize() override {}
  std::unique_ptr<CapturedWork> capture(const std::function<void()>& submit) override {
    ++captures;
    if (refuses) throw DeviceError("no capture today");
    auto work = std::make_unique<Work>();
    work->replays = &replays;
    recording_ = &work->tasks;
    submit();
    recording_ = nullptr;
    return work;
  }

  int submitted = 0, captures = 0, replays = 0;
  bool refuses = false;

 private:
  struct Work final : CapturedWork {
    void replay() override {
      ++*replays;
      for (const auto& task : tasks) task();
    }
    std::vector<std::function<void()>> tasks;
    int* replays = nullptr;
  };
  std::vector<std::function<void()>>* recording_ = nullptr;
};

/// y = 2 x, z = 2 y, [all_reduce z,] w = 2 z, v = 2 w: 16 x when every record ran in order.
class CapturedRangeTest : public testing::Test {
 protected:
  void make_records(bool with_collective, GradientSum sum = GradientSum::None) {
    OpContext context = context_;
    const auto add = [&](int from, int to) {
      AnyOp op = AddFwd{.xs = {ref(from), ref(from)}, .y = ref(to)};
      op.prepare(context);
      records_.push_back({op, Phase::Forward, "layer" + std::to_string(to)});
    };
    add(0, 1);
    add(1, 2);
    if (with_collective) {
      AnyOp op = AllReduce{.data = ref(2)};
      op.prepare(context);
      records_.push_back({op, Phase::Exchange, "exchange", sum});
    }
    add(2, 3);
    add(3, 4);
  }
  TensorRef ref(int i) { return make_ref(&values_[static_cast<std::size_t>(i)], {1}); }
  /// Value after a run that starts from x.
  float run(CapturedRange& range, float x) {
    std::fill(values_.begin(), values_.end(), -1.0f);
    values_[0] = x;
    range.run();
    return values_[4];
  }

  std::shared_ptr<ResourceManager> resources_ = ResourceManager::create({{0}}, 1);
  CapturingStream stream_;
  OpContext context_{&stream_, &resources_->pool(), &resources_->get_local_gpu(0).communicator(),
                     DeviceId{DeviceType::Cpu, 0}};
  std::vector<float> values_ = std::vector<float>(5);
  std::vector<OpRecord> records_;
};

TEST_F(CapturedRangeTest, FirstOneByOneThenAsAWhole) {
  make_records(false);
  CapturedRange range(context_, records_, "test", true);
  EXPECT_EQ(run(range, 1.0f), 16.0f);
  EXPECT_EQ(stream_.submitted, 4);
  EXPECT_EQ(stream_.captures, 0);
  for (int i = 2; i < 6; ++i) {
    EXPECT_EQ(run(range, static_cast<float>(i)), 16.0f * static_cast<float>(i));
    EXPECT_EQ(stream_.replays, i - 1);
  }
  EXPECT_EQ(stream_.submitted, 4);
  EXPECT_EQ(stream_.captures, 1);
  EXPECT_EQ(range.captured_pieces(), 1u);
}

TEST_F(CapturedRangeTest, CollectivesStayOutside) {
  make_records(true);
  CapturedRange range(context_, records_, "test", true);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(run(range, 1.0f), 16.0f);
  EXPECT_EQ(range.captured_pieces(), 2u);
  EXPECT_EQ(stream_.captures, 2);
  EXPECT_EQ(stream_.replays, 4);
}

/// Notes when the lane's stream waits for the step's, and when the step's waits for the lane's.
class NotingStream final : public Stream {
 public:
  NotingStream(std::string name, std::vector<std::string>& notes)
      : name_(std::move(name)), notes_(notes) {}
  DeviceId device() const override { return {DeviceType::Cpu, 0}; }
  void submit(std::function<void()> task) override {
    notes_.push_back(name_ + " runs");
    task();
  }
  void copy(void*, const void*, std::size_t) override {}
  void copy_scalars(void*, const void*, std::size_t) override {}
  void fill_zero(void*, std::size_t) override {}
  void record(Event&) override { notes_.push_back(name_ + " records"); }
  void wait(Event&) override { notes_.push_back(name_ + " waits"); }
  void synchronize() override {}

 private:
  std::string name_;
  std::vector<std::string>& notes_;
};

/// A step and its lane that note what they do.
class NotedLane : public CapturedRangeTest {
 protected:
  NotedLane() { context_.stream = &step_; }
  OpContext on(Stream& stream) const {
    OpContext context = context_;
    context.stream = &stream;
    return context;
  }

  std::vector<std::string> notes_;
  NotingStream step_{"step", notes_}, side_{"lane", notes_};
  GPUResource& gpu_ = resources_->get_local_gpu(0);
  ExchangeLane lane_{on(side_), gpu_.create_event(), gpu_.create_event(), gpu_.create_event()};
};

TEST_F(NotedLane, RecordsBesideGoToTheLaneBehindWhatCameBefore) {
  make_records(true, GradientSum::Beside);
  CapturedRange range(context_, records_, "test", true, &lane_);
  lane_.join(step_);  // nothing is there to wait for
  EXPECT_EQ(run(range, 1.0f), 16.0f);
  lane_.join(step_);
  lane_.join(step_);
  EXPECT_EQ(notes_, (std::vector<std::string>{"step runs", "step runs", "step records",
                                              "lane waits", "lane runs", "lane records",
                                              "step runs", "step runs", "step waits"}));
  notes_.clear();
  lane_.set_used(false);
  EXPECT_EQ(run(range, 1.0f), 16.0f);
  lane_.join(step_);
  EXPECT_EQ(notes_, std::vector<std::string>(4, "step runs"));
  notes_.clear();
  CapturedRange inside(context_, records_, "test", true);
  EXPECT_EQ(run(inside, 1.0f), 16.0f);
  EXPECT_EQ(notes_, std::vector<std::string>(5, "step runs"));
}

TEST_F(NotedLane, SumsBehindRunInTheStepWhereTheLaneIsUsed) {
  make_records(true, GradientSum::Behind);
  CapturedRange range(context_, records_, "test", true, &lane_);
  EXPECT_EQ(run(range, 1.0f), 16.0f);
  lane_.join(step_);
  EXPECT_EQ(notes_, std::vector<std::string>(5, "step runs"));
  notes_.clear();
  lane_.submit(step_, [&] { side_.submit([] {}); });  // gradients of tables go first
  notes_.clear();
  EXPECT_EQ(run(range, 1.0f), 16.0f);
  EXPECT_EQ(notes_, (std::vector<std::string>{"step runs", "step runs", "step waits", "step runs",
                                              "step runs", "step runs"}));
  lane_.join(step_);
  notes_.clear();
  lane_.set_used(false);
  EXPECT_EQ(run(range, 1.0f), 16.0f);
  EXPECT_EQ(notes_, std::vector<std::string>(4, "step runs"));
}

TEST_F(NotedLane, WhatTheLaneEndsWithIsWaitedForLast) {
  lane_.join_end(step_);  // nothing is there to wait for
  lane_.submit(step_, [&] { side_.submit([] {}); });
  lane_.end_with([&] { side_.submit([] {}); });
  lane_.join(step_);
  step_.submit([] {});
  lane_.join_end(step_);
  lane_.join_end(step_);
  EXPECT_EQ(notes_, (std::vector<std::string>{
                        "step runs", "step records", "lane waits", "lane runs", "lane records",
                        "lane runs", "lane records", "step waits", "step runs", "step waits"}));
}

/// What is exchanged beside a step fails on all devices when the step of one has failed before it.
TEST(ExchangeLane, WorkBehindAFailedStepDoesNotRun) {
  auto resources = ResourceManager::create({{0, 1}}, 1);
  std::vector<float> sums{1, 2};
  std::vector<std::unique_ptr<ExchangeLane>> lanes;
  for (std::size_t id = 0; id < 2; ++id) {
    GPUResource& gpu = resources->get_local_gpu(id);
    lanes.push_back(std::make_unique<ExchangeLane>(gpu.exchange_context(), gpu.create_event(),
                                                   gpu.create_event(), gpu.create_event()));
    if (id == 0) gpu.compute_stream().submit([] { throw Error("the step broke"); });
    lanes[id]->submit(gpu.compute_stream(), [&] {
      const OpContext& context = lanes[id]->context();
      context.communicator->all_reduce(make_ref(&sums[id], {1}, gpu.device()), *context.stream);
    });
  }
  for (std::size_t id = 0; id < 2; ++id) {
    try {
      resources->get_local_gpu(id).exchange_stream().synchronize();
      FAIL() << "device " << id << " summed";
    } catch (const CommError& error) {
      EXPECT_NE(std::string(error.what()).find("the step broke"), std::string::npos)
          << error.what();
    }
  }
  EXPECT_EQ(sums, (std::vector<float>{1, 2}));
  EXPECT_THROW(resources->get_local_gpu(0).compute_stream().synchronize(), Error);
}

TEST_F(CapturedRangeTest, TellsWhenTheWatchedTensorsAreWritten) {
  make_records(false);
  records_[1].completes = true;
  CapturedRange range(context_, records_, "test", true);
  int told = 0;
  for (int i = 1; i < 4; ++i) {
    std::fill(values_.begin(), values_.end(), -1.0f);
    values_[0] = 1.0f;
    range.run([&] {
      ++told;
      EXPECT_EQ(values_, (std::vector<float>{1, 2, 4, -1, -1}));
    });
    EXPECT_EQ(told, i);
    EXPECT_EQ(values_[4], 16.0f);
  }
  EXPECT_EQ(range.captured_pieces(), 2u);
  EXPECT_EQ(run(range, 2.0f), 32.0f) << "nobody has to listen";
}

TEST_F(CapturedRangeTest, WithoutCaptureNothingIsReplayed) {
  make_records(false);
  CapturedRange range(context_, records_, "test", false);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(run(range, 2.0f), 32.0f);
  EXPECT_EQ(stream_.captures, 0);
  EXPECT_EQ(stream_.submitted, 12);
}

TEST_F(CapturedRangeTest, ACaptureThatFailsIsTriedOnceAndSaysWhy) {
  make_records(false);
  stream_.refuses = true;
  CapturedRange range(context_, records_, "network on cuda:3", true);
  EXPECT_EQ(run(range, 1.0f), 16.0f);
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(range, 1.0f), 16.0f);
  const std::string said = testing::internal::GetCapturedStderr();
  for (const char* word : {"network on cuda:3", "4 ops", "layer1", "no capture today"}) {
    EXPECT_NE(said.find(word), std::string::npos) << said;
  }
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(range, 1.0f), 16.0f);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(stream_.captures, 1);
  EXPECT_EQ(stream_.replays, 0);
}

TEST_F(CapturedRangeTest, ATimelineSeesEveryRecordWithItsLayer) {
  make_records(false);
  CapturedRange range(context_, records_, "test", true);
  for (int i = 1; i < 3; ++i) run(range, 1.0f);
  std::shared_ptr<TimeMark> origin = stream_.create_time_mark();
  stream_.stamp(*origin);
  stream_.set_timeline(std::make_shared<OpTimeline>("compute", origin));
  EXPECT_EQ(run(range, 1.0f), 16.0f);
  const std::vector<OpTime> times = stream_.timeline()->take();
  stream_.set_timeline(nullptr);
  ASSERT_EQ(times.size(), 4u);
  double end = 0.0;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(times[i].stream, "compute");
    EXPECT_EQ(times[i].op, "add_fwd");
    EXPECT_EQ(times[i].layer, "layer" + std::to_string(i + 1));
    EXPECT_GE(times[i].begin, end);
    EXPECT_GE(times[i].seconds, 0.0);
    end = times[i].begin + times[i].seconds;
  }
  EXPECT_EQ(run(range, 1.0f), 16.0f);
  EXPECT_EQ(stream_.replays, 2);
}

}  // namespace
}  // namespace hugectr
