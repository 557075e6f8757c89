// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/comm/collective_watch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/log.hpp"
#include "core/cuda/driver/driver.hpp"
#include "core/cuda/driver/status.hpp"

namespace hugectr::cuda {

namespace {
constexpr std::size_t kLine = 64 / sizeof(std::uint32_t);
}  // namespace

CollectiveWatch::CollectiveWatch(std::size_t ranks, double limit_seconds,
                                 std::function<void(const std::string&)> overdue)
    : limit_(limit_seconds),
      overdue_(std::move(overdue)),
      write_(optional_driver_function<decltype(write_)>("cuStreamWriteValue32")),
      ranks_(ranks),
      thread_([this] {
        {
          const std::lock_guard lock(mutex_);
          stop_ = true;
        }
        changed_.notify_all();
      }) {
  const std::size_t bytes = std::max<std::size_t>(ranks, 1) * kLine * sizeof(std::uint32_t);
  HCTR_TRY(cudaHostAlloc(reinterpret_cast<void**>(&ended_), bytes, cudaHostAllocPortable));
  std::memset(ended_, 0, bytes);
  try {
    thread_.start("hctr-gpu-watch", [this] { watch(); });
  } catch (...) {
    HCTR_TRY_NOTHROW(cudaFreeHost(ended_));
    throw;
  }
}

CollectiveWatch::~CollectiveWatch() {
  stop();
  HCTR_TRY_NOTHROW(cudaFreeHost(ended_));
}

void CollectiveWatch::stop() noexcept { thread_.join(); }

std::uint32_t* CollectiveWatch::ended(std::size_t rank) const { return ended_ + rank * kLine; }

void CollectiveWatch::launched(std::size_t rank, const char* collective, cudaStream_t stream) {
  if (!works_) return;
  Rank& own = ranks_[rank];
  const std::uint32_t number = own.launched.load() + 1;
  own.names[number % kNames] = collective;
  // Pinned memory has one address for host and devices.
  const auto address = reinterpret_cast<CUdeviceptr>(ended(rank));
  const CUresult status = write_ ? write_(stream, address, number, 0) : CUDA_ERROR_NOT_SUPPORTED;
  if (status == CUDA_SUCCESS) {
    own.launched = number;
  } else if (works_.exchange(false)) {
    log(LogLevel::Warning,
        concat("a process that hangs will not be noticed by the GPUs that wait for it: "
               "cuStreamWriteValue32 gave error ",
               static_cast<int>(status)));
  }
}

const char* CollectiveWatch::look() {
  const auto now = Clock::now();
  for (std::size_t r = 0; works_ && r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    const std::uint32_t done = std::atomic_ref<std::uint32_t>(*ended(r)).load();
    // May be -1 for a moment: the GPU is faster than launched() then.
    const auto under_way = static_cast<std::int32_t>(rank.launched.load() - done);
    if (under_way <= 0 || done != rank.seen) {
      rank.progress = now;
    } else if (now - rank.progress >= limit_) {
      return under_way <= static_cast<std::int32_t>(kNames) ? rank.names[(done + 1) % kNames].load()
                                                            : "a collective";
    }
    rank.seen = done;
  }
  return nullptr;
}

void CollectiveWatch::watch() {
  const auto pause = std::chrono::duration_cast<Clock::duration>(
      std::min<std::chrono::duration<double>>(limit_ / 20, std::chrono::milliseconds(100)));
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [&] { return stop_; })) {
    if (const char* const what = look()) {
      lock.unlock();
      overdue_(what);
      return;
    }
  }
}

}  // namespace hugectr::cuda
