// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/thread_group.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <iterator>
#include <mutex>
#include <stdexcept>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

/// Threads that wait until they are stopped.
class Waiting {
 public:
  explicit Waiting(std::atomic<int>& ended) : ended_(ended) {}
  void start(const std::string& name) {
    threads_.start(name, [this] {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_; });
      ++ended_;
    });
  }

 private:
  std::atomic<int>& ended_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  ThreadGroup threads_{[this] {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
  }};
};

/// No thread can be had while it lives: none may have a stack of so many bytes.
class NoStacks {
 public:
  NoStacks() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge = before_;
    pthread_attr_setstacksize(&huge, std::size_t{1} << 46);
    pthread_setattr_default_np(&huge);
  }
  ~NoStacks() { pthread_setattr_default_np(&before_); }
  NoStacks(const NoStacks&) = delete;
  NoStacks& operator=(const NoStacks&) = delete;

 private:
  pthread_attr_t before_{};
};

TEST(ThreadGroup, StopsAndWaitsForAll) {
  std::atomic<int> ended{0};
  {
    Waiting waiting(ended);
    waiting.start("a");
    waiting.start("b");
  }
  EXPECT_EQ(ended, 2);
}

TEST(ThreadGroup, ThreadsOfAConstructorThatFailsAreWaitedFor) {
  struct Owner {
    explicit Owner(std::atomic<int>& ended) : waiting(ended) {
      waiting.start("a");
      throw std::runtime_error("later");
    }
    Waiting waiting;
  };
  std::atomic<int> ended{0};
  EXPECT_THROW(Owner owner(ended), std::runtime_error);
  EXPECT_EQ(ended, 1);
}

TEST(ThreadGroup, SaysWhatIsShortAndKeepsTheOthers) {
  std::atomic<int> ended{0};
  {
    Waiting waiting(ended);
    waiting.start("first");
    // The test's, "first", and what a sanitizer has.
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    const auto threads = std::distance(begin(tasks), end(tasks));
    try {
      const NoStacks none;
      waiting.start("second");
      FAIL() << "a thread with such a stack was started";
    } catch (const OutOfMemory& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("'second' could not be started"), std::string::npos) << text;
      EXPECT_NE(text.find(concat("has ", threads, " threads")), std::string::npos) << text;
      EXPECT_NE(text.find("HUGECTR_NUM_THREADS"), std::string::npos) << text;
    }
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(ended, 1);
}

TEST(ThreadGroup, AnErrorThatGetsOutEndsTheThreadAlone) {
  ThreadGroup group([] {});
  group.start("fails", [] { throw std::runtime_error("out"); });
  group.start("throws", [] { throw 7; });
  group.join();
  EXPECT_EQ(group.size(), 0u);
}

TEST(ThreadGroup, AForkedChildWaitsForNobody) {
  std::atomic<int> ended{0};
  Waiting waiting(ended);
  waiting.start("a");
  const MadeIn here;
  EXPECT_TRUE(here.this_process());
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
#ifndef __SANITIZE_THREAD__  // ThreadSanitizer ends children of threads that start any
    ThreadGroup own([] {});
    own.start("b", [] {});
    own.join();
#endif
    _exit(here.this_process() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ThreadGroup, AnOwnerMayBeLetGoOfInItsOwnThread) {
  std::promise<void> gone;
  struct Owner {
    explicit Owner(std::promise<void>& promise) : gone(promise) {}
    ~Owner() {
      threads.join();
      gone.set_value();
    }
    std::promise<void>& gone;
    ThreadGroup threads{[] {}};
  };
  auto* owner = new Owner(gone);
  std::promise<void> started;
  owner->threads.start("last", [owner, has_started = started.get_future().share()] {
    has_started.wait();
    delete_outside_of_groups(owner);
  });
  started.set_value();
  ASSERT_EQ(gone.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

}  // namespace
}  // namespace hugectr
