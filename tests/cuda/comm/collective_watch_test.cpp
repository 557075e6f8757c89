// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/comm/collective_watch.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "core/cuda/driver/device_guard.hpp"
#include "core/cuda/driver/status.hpp"
#include "tests/cuda/gpu.hpp"

namespace hugectr::cuda {
namespace {

/// A stream that is held up until open() is called.
class CollectiveWatchTest : public GpuTest<1> {
 protected:
  void SetUp() override {
    GpuTest<1>::SetUp();
    if (!IsSkipped()) stream_ = backend().create_stream(device, "watched");
  }
  void TearDown() override {
    open();
    stream_.reset();
  }
  cudaStream_t native() { return static_cast<cudaStream_t>(stream_->native()); }
  void hold_up() {
    HCTR_TRY(cudaLaunchHostFunc(
        native(), [](void* opened) { static_cast<std::shared_future<void>*>(opened)->wait(); },
        &opened_));
  }
  void open() {
    if (!open_.exchange(true)) promise_.set_value();
  }
  void launch(CollectiveWatch& watch, const char* name) {
    const DeviceGuard guard(0);
    watch.launched(0, name, native());
  }

  std::unique_ptr<Stream> stream_;
  std::atomic<bool> open_ = false;
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
};

TEST_F(CollectiveWatchTest, WhatDoesNotEndIsNamedOnce) {
  std::promise<std::string> told;
  std::atomic<int> times = 0;
  CollectiveWatch watch(1, 0.2, [&](const std::string& what) {
    if (++times == 1) told.set_value(what);
  });
  launch(watch, "all_gather");  // ends at once
  stream_->synchronize();
  hold_up();
  launch(watch, "all_reduce");
  launch(watch, "broadcast");
  // As the reading of a loss does: a copy to pageable memory waits inside the driver.
  DeviceArray<float> loss(device, 1);
  float value = 0.0f;
  std::thread reading([&] { stream_->copy(&value, loss.data(), sizeof value); });
  std::future<std::string> name = told.get_future();
  const bool noticed = name.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  open();
  reading.join();
  stream_->synchronize();
  ASSERT_TRUE(noticed);
  EXPECT_EQ(name.get(), "all_reduce");
  EXPECT_EQ(times, 1);
}

TEST_F(CollectiveWatchTest, AsLongAsSomeEndNothingIsOverdue) {
  std::atomic<int> times = 0;
  CollectiveWatch watch(1, 0.5, [&](const std::string&) { ++times; });
  for (int i = 0; i < 12; ++i) {  // some are always under way, for twice the limit
    HCTR_TRY(cudaLaunchHostFunc(
        native(), [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(100)); },
        nullptr));
    launch(watch, "all_reduce");
  }
  stream_->synchronize();
  EXPECT_EQ(times, 0);
}

TEST_F(CollectiveWatchTest, ManyAtATimeAndAStopAreNoTrouble) {
  std::atomic<int> times = 0;
  {
    CollectiveWatch watch(1, 60.0, [&](const std::string&) { ++times; });
    for (int i = 0; i < 1000; ++i) launch(watch, "all_reduce");
    stream_->synchronize();
    hold_up();
    launch(watch, "all_reduce");
    watch.stop();
    open();
    stream_->synchronize();
  }
  EXPECT_EQ(times, 0);
}

}  // namespace
}  // namespace hugectr::cuda
