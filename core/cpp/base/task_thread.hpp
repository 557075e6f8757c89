// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>

#include "core/cpp/base/thread_group.hpp"

namespace hugectr {

/// A thread for what one owner has done beside its own: a task at a time. The owner is one thread.
///
/// Make it the last member of its owner, as a ThreadGroup: a task may use all that is before it.
class HCTR_API TaskThread {
 public:
  /// The thread is started by the first begin().
  explicit TaskThread(std::string name);
  /// Waits for the task, whose error nobody hears.
  ~TaskThread() = default;

  /// Has the thread do it; the one before must have been waited for. Throws OutOfMemory where no
  /// thread can be started.
  void begin(std::function<void()> task);
  /// Until the task has been done, if there is one. Throws its error, once.
  void wait();

 private:
  /// Takes tasks until the object goes, even when one has the thread ended: wait() counts on it.
  void run();
  void take_tasks();
  std::exception_ptr call();
  void done(std::exception_ptr error);

  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_;
  bool under_way_ = false, stop_ = false;
  std::exception_ptr error_;
  ThreadGroup thread_;
};

}  // namespace hugectr
