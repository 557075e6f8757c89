// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>

#include "core/cpp/base/thread_group.hpp"
#include "core/cpp/device/resource_manager.hpp"

namespace hugectr {

/// One host thread per local device, kept between calls. With one device there is none and work
/// runs in the caller.
class ResourceManager::DeviceThreads {
 public:
  /// `on_error` is called with the text of each exception, at once, so that it can wake the others.
  DeviceThreads(std::size_t count, const std::string& name,
                std::function<void(const std::string&)> on_error);

  /// Runs f(i) for every thread i and waits. Calls from several threads take turns; a call from
  /// inside f throws InvalidArgument. Rethrows the first exception; one that is no CommError goes
  /// before the CommErrors it caused in others.
  void run(const std::function<void(std::size_t)>& f);

 private:
  /// Takes part in all rounds after `seen`, even when f has the thread ended: those who call run()
  /// count on it, so it stays until they are done.
  void work(std::size_t i, std::uint64_t seen);
  void take_rounds(std::size_t i, std::uint64_t seen);
  void call(const std::function<void(std::size_t)>& f, std::size_t i);
  std::uint64_t finish();  ///< returns the round
  void keep(std::exception_ptr error, bool comm_error);
  void tell(const char* error) noexcept;

  std::function<void(const std::string&)> on_error_;
  std::mutex turn_;  ///< one run() at a time
  std::mutex mutex_;
  std::condition_variable start_, finish_;
  const std::function<void(std::size_t)>* f_ = nullptr;
  std::uint64_t round_ = 0;
  std::size_t running_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
  bool error_is_comm_ = false;
  ThreadGroup threads_;
};

}  // namespace hugectr
