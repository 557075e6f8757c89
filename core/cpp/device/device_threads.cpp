// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/device_threads.hpp"

#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"

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
    threads_.start(concat(name, "-", i), [this, i] {
      running_for = this;
      work(i, 0);
    });
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

HCTR_MAY_BE_UNWOUND void ResourceManager::DeviceThreads::work(std::size_t i, std::uint64_t seen) {
  try {
    take_rounds(i, seen);
  }
  HCTR_CATCH_FORCED_UNWIND(keep(std::make_exception_ptr(DeviceError(kThreadWasEnded)), false);
                           tell(kThreadWasEnded); work(i, finish()))
}

void ResourceManager::DeviceThreads::take_rounds(std::size_t i, std::uint64_t seen) {
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return round_ != seen || stop_; });
    if (stop_) return;
    seen = round_;
    const auto* const f = f_;
    lock.unlock();
    call(*f, i);
    finish();
    lock.lock();
  }
}

HCTR_MAY_BE_UNWOUND void ResourceManager::DeviceThreads::call(
    const std::function<void(std::size_t)>& f, std::size_t i) {
  try {
    f(i);
  }
  HCTR_CATCH_FORCED_UNWIND()
  catch (const CommError& e) {
    keep(std::current_exception(), true);
    tell(e.what());
  }
  catch (const std::exception& e) {
    keep(std::current_exception(), false);
    tell(cause_of(e));
  }
  catch (...) {
    keep(std::current_exception(), false);
    tell("unknown error");
  }
}

std::uint64_t ResourceManager::DeviceThreads::finish() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t round = round_;  // no other one begins before this one has ended
  if (--running_ == 0) finish_.notify_all();
  return round;
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
