// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/task_thread.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

TEST(TaskThread, DoesOneTaskAfterTheOther) {
  TaskThread thread("tasks");
  thread.wait();  // there is none
  int sum = 0;    // of the thread, then of who has waited
  std::thread::id before;
  for (int i = 1; i <= 100; ++i) {
    std::thread::id id;
    thread.begin([&] {
      sum += i;
      id = std::this_thread::get_id();
    });
    thread.wait();
    EXPECT_NE(id, std::this_thread::get_id());
    if (i > 1) {
      EXPECT_EQ(id, before);
    }
    before = id;
  }
  EXPECT_EQ(sum, 5050);
}

TEST(TaskThread, GivesAnErrorOnceToWhoWaits) {
  TaskThread thread("tasks");
  thread.begin([] { throw std::runtime_error("this one"); });
  EXPECT_THROW(thread.wait(), std::runtime_error);
  thread.wait();
  thread.begin([] { throw std::runtime_error("nobody waited"); });
  while (true) {  // an error of before is not the next one's
    try {
      thread.begin([] {});
      break;
    } catch (const InvalidArgument&) {
      std::this_thread::yield();
    }
  }
  thread.wait();
}

TEST(TaskThread, RefusesASecondTask) {
  TaskThread thread("tasks");
  std::atomic<bool> go{false};
  thread.begin([&] { go.wait(false); });
  EXPECT_THROW(thread.begin([] {}), InvalidArgument);
  go = true;
  go.notify_one();
  thread.wait();
}

TEST(TaskThread, WaitsForItsTaskWhenItGoes) {
  std::atomic<bool> done{false};
  {
    TaskThread thread("tasks");
    thread.begin([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
    });
  }
  EXPECT_TRUE(done);
}

TEST(TaskThread, AThreadThatIsEndedFromOutsideIsToldToWhoWaits) {
  TaskThread thread("tasks");
  thread.begin([] { pthread_exit(nullptr); });
  EXPECT_THROW(thread.wait(), DeviceError);
}

}  // namespace
}  // namespace hugectr
