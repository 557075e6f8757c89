// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/cpu_stream.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

const DeviceId kDevice{DeviceType::Cpu, 0};

TEST(CpuStream, RunsInOrderOnAThreadOfItsOwn) {
  const auto stream = make_cpu_stream(kDevice, "test");
  EXPECT_EQ(stream->device(), kDevice);
  EXPECT_EQ(stream->native(), nullptr);
  std::vector<int> seen;
  std::thread::id thread;
  for (int i = 0; i < 1000; ++i) stream->submit([&seen, i] { seen.push_back(i); });
  stream->submit([&] { thread = std::this_thread::get_id(); });
  stream->synchronize();
  ASSERT_EQ(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(seen[i], i);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(CpuStream, SubmitReturnsBeforeTheTaskHasRun) {
  const auto stream = make_cpu_stream(kDevice, "test");
  std::promise<void> gate;
  std::atomic<bool> ran{false};
  stream->submit([&] {
    gate.get_future().wait();
    ran = true;
  });
  EXPECT_FALSE(ran);  // a stream that ran tasks in submit() would hang above
  gate.set_value();
  stream->synchronize();
  EXPECT_TRUE(ran);
}

TEST(CpuStream, CopyScalarsTakesTheValuesAtOnceAndCopyLater) {
  const auto stream = make_cpu_stream(kDevice, "test");
  std::promise<void> gate;
  stream->submit([&] { gate.get_future().wait(); });
  int scalar = 1, value = 1, copied_scalar = 0, copied = 0;
  std::vector<int> zeros(100, 5);
  stream->copy_scalars(&copied_scalar, &scalar, sizeof(int));
  stream->copy(&copied, &value, sizeof(int));
  stream->fill_zero(zeros.data(), 50 * sizeof(int));
  scalar = 2;
  value = 2;
  gate.set_value();
  stream->synchronize();
  EXPECT_EQ(copied_scalar, 1);
  EXPECT_EQ(copied, 2);
  EXPECT_EQ(zeros[49], 0);
  EXPECT_EQ(zeros[50], 5);
  std::vector<char> large(257);
  EXPECT_THROW(stream->copy_scalars(large.data(), large.data(), 257), InvalidArgument);
}

TEST(CpuStream, WaitOrdersTwoStreams) {
  const auto producer = make_cpu_stream(kDevice, "producer");
  const auto consumer = make_cpu_stream(kDevice, "consumer");
  const auto event = make_cpu_event();
  int value = 0;
  for (int i = 1; i <= 200; ++i) {
    int seen = 0;
    producer->submit([&value, i] {
      if (i % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      value = i;
    });
    producer->record(*event);
    consumer->wait(*event);
    consumer->submit([&] { seen = value; });
    consumer->synchronize();
    ASSERT_EQ(seen, i);
  }
}

TEST(CpuEvent, NeverRecordedCountsAsDone) {
  const auto stream = make_cpu_stream(kDevice, "test");
  const auto event = make_cpu_event();
  event->synchronize();
  stream->wait(*event);
  stream->synchronize();
}

TEST(CpuEvent, WaitMeansTheLastRecordBeforeIt) {
  const auto first = make_cpu_stream(kDevice, "first");
  const auto second = make_cpu_stream(kDevice, "second");
  const auto event = make_cpu_event();
  std::promise<void> gate;
  const std::shared_future<void> opened = gate.get_future().share();
  first->record(*event);
  second->wait(*event);
  first->submit([opened] { opened.wait(); });
  first->record(*event);
  second->synchronize();  // would hang if wait() followed the later record()
  std::atomic<bool> through{false};
  std::thread waiter([&] {
    event->synchronize();
    through = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(through);
  gate.set_value();
  waiter.join();
  EXPECT_TRUE(through);
}

TEST(CpuStream, KeepsTheFirstErrorAndSkipsUntilItIsRethrownOnce) {
  const auto stream = make_cpu_stream(kDevice, "test");
  bool ran = false;
  std::string cause;
  stream->submit([] { throw DataError("bad block at byte 17"); });
  stream->submit([&] { ran = true; });
  stream->submit([] { throw DeviceError("second"); });
  stream->submit_or_else([&] { ran = true; }, [&](const std::string& text) { cause = text; });
  try {
    stream->synchronize();
    FAIL();
  } catch (const DataError& e) {
    EXPECT_STREQ(e.what(), "bad block at byte 17");
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(cause, "bad block at byte 17");
  EXPECT_NO_THROW(stream->synchronize());
  stream->submit([&] { ran = true; });
  stream->synchronize();
  EXPECT_TRUE(ran);
}

TEST(CpuStream, AFailedStreamLetsOthersGoOn) {
  const auto failing = make_cpu_stream(kDevice, "failing");
  const auto other = make_cpu_stream(kDevice, "other");
  const auto event = make_cpu_event();
  bool ran = false;
  failing->submit([] { throw DataError("x"); });
  failing->record(*event);
  other->wait(*event);
  other->submit([&] { ran = true; });
  other->synchronize();
  EXPECT_TRUE(ran);
  event->synchronize();
  EXPECT_THROW(failing->synchronize(), DataError);
}

TEST(CpuStream, DestructorRunsWhatIsQueued) {
  int count = 0;
  {
    const auto stream = make_cpu_stream(kDevice, "test");
    for (int i = 0; i < 100; ++i) stream->submit([&] { ++count; });
  }
  EXPECT_EQ(count, 100);
}

TEST(CpuStream, WhatATaskHoldsIsGoneAfterSynchronize) {
  const auto stream = make_cpu_stream(kDevice, "test");
  auto held = std::make_shared<int>(1);
  stream->submit([held] {});
  stream->synchronize();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(CpuStream, ATaskCanNotSynchronizeItsOwnStream) {
  const auto stream = make_cpu_stream(kDevice, "own");
  stream->submit([&] { stream->synchronize(); });
  EXPECT_THROW(stream->synchronize(), InvalidArgument);
}

TEST(CpuStream, DelaysComeFromTheEnvironment) {
  setenv("HUGECTR_STREAM_DELAY_US", "often", 1);
  EXPECT_THROW(make_cpu_stream(kDevice, "test"), InvalidArgument);
  setenv("HUGECTR_STREAM_DELAY_US", "2000", 1);
  const auto start = std::chrono::steady_clock::now();
  {
    const auto stream = make_cpu_stream(kDevice, "test");
    for (int i = 0; i < 30; ++i) stream->submit([] {});
  }
  unsetenv("HUGECTR_STREAM_DELAY_US");
  // 30 uniform pauses have a mean of 30 ms; less than 3 ms does not happen.
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(3));
}

}  // namespace
}  // namespace hugectr
