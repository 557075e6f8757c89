// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/comm/collective_watch.hpp"

#include <atomic>
#include <chrono>
#include <future>

#include "core/cuda/device/device_guard.hpp"
#include "core/cuda/device/status.hpp"
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
    watch.launched(0, name, 0, native());
  }

  std::unique_ptr<Stream> stream_;
  std::atomic<bool> open_ = false;
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
};

TEST_F(CollectiveWatchTest, WhatDoesNotEndIsNamedOnce) {
  std::promise<std::string> told;
  std::atomic<int> times = 0;
  CollectiveWatch watch(0.2, [&](const std::string& what) {
    if (++times == 1) told.set_value(what);
  });
  launch(watch, "all_gather");  // ends at once
  stream_->synchronize();
  hold_up();
  launch(watch, "all_reduce");
  launch(watch, "broadcast");
  std::future<std::string> name = told.get_future();
  ASSERT_EQ(name.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(name.get(), "all_reduce");
  open();
  stream_->synchronize();
  EXPECT_EQ(times, 1);
}

TEST_F(CollectiveWatchTest, MoreThanItHoldsAtATimeAndAStopAreNoTrouble) {
  std::atomic<int> times = 0;
  {
    CollectiveWatch watch(60.0, [&](const std::string&) { ++times; });
    for (int i = 0; i < 1000; ++i) launch(watch, "all_reduce");
    stream_->synchronize();
    hold_up();
    launch(watch, "all_reduce");
  }
  EXPECT_EQ(times, 0);
}

}  // namespace
}  // namespace hugectr::cuda
