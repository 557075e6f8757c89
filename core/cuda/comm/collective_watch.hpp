// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "core/cpp/base/thread_group.hpp"

namespace hugectr::cuda {

/// Notices that collectives do not end. A GPU waits for ever for one whose process hangs, and so
/// does every thread that waits for the GPU; a thread of the watch does not. That thread makes no
/// call of CUDA: one may wait for a lock of the driver that a thread holds while it waits for the
/// GPU. Behind every collective the stream counts on in host memory instead.
class CollectiveWatch {
 public:
  /// `ranks`: the caller's devices. `overdue(what)` is called, once, on a thread of the watch, when
  /// collectives of a rank were under way for `limit_seconds` and none of them ended; `what` is the
  /// oldest one's name.
  CollectiveWatch(std::size_t ranks, double limit_seconds,
                  std::function<void(const std::string& what)> overdue);
  /// Streams may not write any more.
  ~CollectiveWatch();
  CollectiveWatch(const CollectiveWatch&) = delete;
  CollectiveWatch& operator=(const CollectiveWatch&) = delete;

  /// `rank` has just launched a collective on its stream; its device is current. Collectives of a
  /// rank end in the order of their launches. `collective` is a literal. Where a driver can not
  /// count so, that is logged once and nothing is watched: no job fails for its watch.
  void launched(std::size_t rank, const char* collective, cudaStream_t stream);
  /// Ends the thread; nothing is noticed any more.
  void stop() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kNames = 64;
  struct Rank {
    std::atomic<std::uint32_t> launched = 0;
    std::array<std::atomic<const char*>, kNames> names{};  ///< of the latest launches
    // Of the thread alone.
    std::uint32_t seen = 0;
    Clock::time_point progress = Clock::now();
  };

  void watch();
  /// The name of a collective that is overdue, or null.
  const char* look();
  std::uint32_t* ended(std::size_t rank) const;

  std::chrono::duration<double> limit_;
  std::function<void(const std::string&)> overdue_;
  decltype(&::cuStreamWriteValue32) write_;  ///< null: nothing is watched
  std::atomic<bool> works_ = true;
  std::vector<Rank> ranks_;
  std::uint32_t* ended_ =
      nullptr;  ///< pinned: a line a rank, the number of its last that has ended
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  ThreadGroup thread_;
};

}  // namespace hugectr::cuda
