// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace hugectr::cuda {

/// Notices that collectives do not end. A GPU waits for ever for one whose process hangs, and so
/// does every thread that waits for the GPU; a thread of the watch does not.
class CollectiveWatch {
 public:
  /// `overdue(what)` is called, once, on a thread of the watch, when collectives of a stream were
  /// under way for `limit_seconds` and none of them ended; `what` is the oldest one's name.
  CollectiveWatch(double limit_seconds, std::function<void(const std::string& what)> overdue);
  ~CollectiveWatch();
  CollectiveWatch(const CollectiveWatch&) = delete;
  CollectiveWatch& operator=(const CollectiveWatch&) = delete;

  /// `rank`, one of the caller's devices, has just launched a collective on its stream. The device
  /// is current. Collectives of a rank end in the order of their launches.
  void launched(std::size_t rank, const char* collective, int device, cudaStream_t stream);
  /// Forgets what is under way; nothing is noticed any more.
  void stop() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    cudaEvent_t done;
    const char* collective;
    int device;
  };
  struct Rank {
    std::deque<Pending> pending;
    Clock::time_point progress;  ///< when the oldest became the oldest
  };

  void watch();
  /// The name of a collective that is overdue, or null.
  const char* look();
  void release(const Pending& pending) noexcept;

  std::chrono::duration<double> limit_;
  std::function<void(const std::string&)> overdue_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Rank> ranks_;
  std::vector<Pending> spare_;  ///< events to use again, each on its device
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace hugectr::cuda
