// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/device_threads.hpp"

#include <pthread.h>

#include <utility>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

/// The DeviceThreads whose f this thread is running, if any.
thread_local const void* running_for = nullptr;

}  // namespace

ResourceManager::DeviceThreads::DeviceThreads(std::size_t count, const std::string& name,
                                              std::function<void(const std::string&)> on_error)
    : on_error_(std::move(on_error)) {
  if (count == 1) return;
  for (std::size_t i = 0; i < count; ++i) {
    threads_.emplace_back([this, i] { thread_main(i); });
    pthread_setname_np(threads_.back().native_handle(), concat(name, "-", i).substr(0, 15).c_str());
  }
}

ResourceManager::DeviceThreads::~DeviceThreads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ResourceManager::DeviceThreads::run(const std::function<void(std::size_t)>& f) {
  HCTR_CHECK(running_for != this, "for_each_device can not be called from inside itself");
  const std::lock_guard turn(turn_);
  if (threads_.empty()) {
    running_for = this;
    try {
      f(0);
    } catch (...) {
      running_for = nullptr;
      throw;
    }
    running_for = nullptr;
    return;
  }
  std::unique_lock lock(mutex_);
  f_ = &f;
  error_ = nullptr;
  error_is_comm_ = false;
  running_ = threads_.size();
  ++round_;
  start_.notify_all();
  finish_.wait(lock, [&] { return running_ == 0; });
  f_ = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ResourceManager::DeviceThreads::thread_main(std::size_t i) {
  running_for = this;
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return round_ != seen || stop_; });
    if (stop_) return;
    seen = round_;
    const auto* const f = f_;
    lock.unlock();
    try {
      (*f)(i);
    } catch (const CommError& e) {
      keep(std::current_exception(), true);
      on_error_(e.what());
    } catch (const std::exception& e) {
      keep(std::current_exception(), false);
      on_error_(e.what());
    } catch (...) {
      keep(std::current_exception(), false);
      on_error_("unknown error");
    }
    lock.lock();
    if (--running_ == 0) finish_.notify_all();
  }
}

void ResourceManager::DeviceThreads::keep(std::exception_ptr error, bool comm_error) {
  const std::lock_guard lock(mutex_);
  if (error_ && (comm_error || !error_is_comm_)) return;
  error_ = std::move(error);
  error_is_comm_ = comm_error;
}

}  // namespace hugectr
