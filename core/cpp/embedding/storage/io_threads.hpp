// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "core/cpp/base/thread_group.hpp"
#include "core/cpp/embedding/storage/aligned_buffer.hpp"

namespace hugectr {

/// Threads that wait for disks, as many as requests shall be under way at once (the queue depth):
/// plain preads, since containers refuse io_uring. All stores of a process share them.
class IoThreads {
 public:
  /// What SSDs want before they read 4 KiB at their full rate.
  static constexpr std::size_t kDefault = 32;

  /// Throws OutOfMemory when the system gives no thread.
  explicit IoThreads(std::size_t count = kDefault);

  /// Gets a buffer of its thread's.
  using Job = std::function<void(std::size_t job, AlignedBuffer& buffer)>;
  /// Does jobs 0 .. jobs - 1 in any order and returns when none is under way any more. Throws the
  /// first error; jobs that had not begun by then are left out. Several callers may call at once.
  void run(std::size_t jobs, const Job& job);

  std::size_t count() const { return count_; }

 private:
  struct Batch {
    const Job* job = nullptr;
    std::size_t jobs = 0;
    std::size_t next = 0, under_way = 0;  // guarded by mutex_
    std::exception_ptr error;
  };
  void work();

  std::size_t count_;
  std::mutex mutex_;
  std::condition_variable there_is_work_, batch_done_;
  std::list<Batch*> batches_;  ///< with jobs that have not begun
  bool stop_ = false;
  MadeIn made_in_;
  ThreadGroup threads_;
};

}  // namespace hugectr
