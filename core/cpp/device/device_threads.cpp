// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/device_threads.hpp"

#include <utility>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

/// The DeviceThreads whose f this thread is running, if any. Initial-exec: there from the start of
/// a thread, without an allocation that could fail.
[[gnu::tls_model("initial-exec")]] thread_local const void* running_for = nullptr;

}  // namespace

ResourceManager::DeviceThreads::DeviceThreads(std::size_t count, const std::string& name,
                                              std::function<void(const std::string&)> on_error)
    : on_error_(std::move(on_error)), threads_([this] {
        {
          const std::lock_guard lock(mutex_);
          stop_ = true;
        }
        start_.notify_all();
      }) {
  if (count == 1) return;
  for (std::size_t i = 0; i < count; ++i) {
    threads_.start(concat(name, "-", i), [this, i] { thread_main(i); });
  }
}

void ResourceManager::DeviceThreads::run(const std::function<void(std::size_t)>& f) {
  HCTR_CHECK(running_for != this, "for_each_device can not be called from inside itself");
  const std::lock_guard turn(turn_);
  if (threads_.size() == 0) {
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
      tell(e.what());
    } catch (const std::exception& e) {
      keep(std::current_exception(), false);
      tell(e.what());
    } catch (...) {
      keep(std::current_exception(), false);
      tell("unknown error");
    }
    lock.lock();
    if (--running_ == 0) finish_.notify_all();
  }
}

void ResourceManager::DeviceThreads::tell(const char* error) noexcept {
  try {
    on_error_(error);
  } catch (...) {
    // No memory for the text. The others must be woken all the same, and this text needs none.
    on_error_("out of memory");
  }
}

void ResourceManager::DeviceThreads::keep(std::exception_ptr error, bool comm_error) {
  const std::lock_guard lock(mutex_);
  if (error_ && (comm_error || !error_is_comm_)) return;
  error_ = std::move(error);
  error_is_comm_ = comm_error;
}

}  // namespace hugectr
