// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/comm/collective_watch.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/log.hpp"
#include "core/cuda/device/device_guard.hpp"
#include "core/cuda/device/status.hpp"

namespace hugectr::cuda {

CollectiveWatch::CollectiveWatch(double limit_seconds,
                                 std::function<void(const std::string&)> overdue)
    : limit_(limit_seconds), overdue_(std::move(overdue)), thread_([this] { watch(); }) {}

CollectiveWatch::~CollectiveWatch() {
  stop();
  thread_.join();
  for (const Pending& event : spare_) HCTR_TRY_NOTHROW(cudaEventDestroy(event.done));
}

void CollectiveWatch::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (Rank& rank : ranks_) {
      for (const Pending& pending : rank.pending) release(pending);
      rank.pending.clear();
    }
  }
  changed_.notify_all();
}

void CollectiveWatch::launched(std::size_t rank, const char* collective, int device,
                               cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (stop_) return;
  if (ranks_.size() <= rank) ranks_.resize(rank + 1);
  Rank& own = ranks_[rank];
  // Where a step is far ahead of the watch, one event for all of its collectives is enough.
  constexpr std::size_t kMost = 64;
  if (own.pending.size() >= kMost) return;
  Pending pending{nullptr, collective, device};
  const auto spare = std::find_if(spare_.begin(), spare_.end(),
                                  [&](const Pending& event) { return event.device == device; });
  if (spare != spare_.end()) {
    pending.done = spare->done;
    *spare = spare_.back();
    spare_.pop_back();
  } else {
    HCTR_TRY(cudaEventCreateWithFlags(&pending.done, cudaEventDisableTiming));
  }
  if (own.pending.empty()) own.progress = Clock::now();
  own.pending.push_back(pending);
  HCTR_TRY(cudaEventRecord(pending.done, stream));
}

void CollectiveWatch::release(const Pending& pending) noexcept { spare_.push_back(pending); }

const char* CollectiveWatch::look() {
  const auto now = Clock::now();
  for (Rank& rank : ranks_) {
    while (!rank.pending.empty()) {
      const DeviceGuard guard(rank.pending.front().device);
      const cudaError_t status = cudaEventQuery(rank.pending.front().done);
      if (status == cudaErrorNotReady) break;
      // An error of the GPU is for those who wait for their streams to report.
      release(rank.pending.front());
      rank.pending.pop_front();
      rank.progress = now;
    }
    if (!rank.pending.empty() && now - rank.progress >= limit_) {
      return rank.pending.front().collective;
    }
  }
  return nullptr;
}

void CollectiveWatch::watch() {
  const auto pause = std::chrono::duration_cast<Clock::duration>(
      std::min<std::chrono::duration<double>>(limit_ / 20, std::chrono::milliseconds(100)));
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [&] { return stop_; })) {
    const char* what = nullptr;
    try {
      what = look();
    } catch (const std::exception& error) {
      log(LogLevel::Warning, concat("the watch over collectives ends: ", error.what()));
      return;
    }
    if (what == nullptr) continue;
    lock.unlock();
    overdue_(what);
    return;
  }
}

}  // namespace hugectr::cuda
