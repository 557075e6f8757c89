// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/task_thread.hpp"

#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"

namespace hugectr {

TaskThread::TaskThread(std::string name)
    : name_(std::move(name)), thread_([this] {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !under_way_; });
        stop_ = true;
        changed_.notify_all();
      }) {}

void TaskThread::begin(std::function<void()> task) {
  if (thread_.size() == 0) thread_.start(name_, [this] { run(); });
  {
    const std::lock_guard lock(mutex_);
    HCTR_CHECK(!under_way_, "thread ", name_, " has a task already");
    task_ = std::move(task);
    under_way_ = true;
    error_ = nullptr;
  }
  changed_.notify_all();
}

void TaskThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !under_way_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

HCTR_MAY_BE_UNWOUND void TaskThread::run() {
  try {
    take_tasks();
  }
  HCTR_CATCH_FORCED_UNWIND(done(std::make_exception_ptr(DeviceError(kThreadWasEnded))); run())
}

void TaskThread::take_tasks() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return under_way_ || stop_; });
    if (stop_) return;
    lock.unlock();
    done(call());
    lock.lock();
  }
}

HCTR_MAY_BE_UNWOUND std::exception_ptr TaskThread::call() {
  try {
    task_();
  }
  HCTR_CATCH_FORCED_UNWIND()
  catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void TaskThread::done(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    task_ = nullptr;
    under_way_ = false;
  }
  changed_.notify_all();
}

}  // namespace hugectr
