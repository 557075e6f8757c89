// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/io_threads.hpp"

#include <algorithm>

#include "core/cpp/base/error.hpp"

namespace hugectr {

IoThreads::IoThreads(std::size_t count)
    : count_(count), threads_([this] {
        const std::scoped_lock lock(mutex_);
        stop_ = true;
        there_is_work_.notify_all();
      }) {
  for (std::size_t i = 0; i < count; ++i) threads_.start("disk rows", [this] { work(); });
}

void IoThreads::run(std::size_t jobs, const Job& job) {
  HCTR_CHECK(made_in_.this_process(),
             "rows on disk belong to the process that opened them: a forked child has none of its "
             "threads; open them there anew, in another folder");
  if (jobs == 0) return;
  Batch batch{&job, jobs};
  std::unique_lock lock(mutex_);
  batches_.push_back(&batch);
  if (jobs == 1) {
    there_is_work_.notify_one();
  } else {
    there_is_work_.notify_all();
  }
  batch_done_.wait(lock, [&] { return batch.next == batch.jobs && batch.under_way == 0; });
  if (batch.error) std::rethrow_exception(batch.error);
}

void IoThreads::work() {
  AlignedBuffer buffer;
  std::unique_lock lock(mutex_);
  for (;;) {
    there_is_work_.wait(lock, [&] { return stop_ || !batches_.empty(); });
    if (stop_) return;
    Batch& batch = *batches_.front();
    // A few at a time, so that the lock is not what 32 threads wait for.
    const std::size_t share = std::max<std::size_t>((batch.jobs - batch.next) / (8 * count()), 1);
    const std::size_t first = batch.next, end = std::min(batch.jobs, first + share);
    batch.next = end;
    ++batch.under_way;
    if (end == batch.jobs) batches_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      for (std::size_t i = first; i < end; ++i) (*batch.job)(i, buffer);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !batch.error) {
      batch.error = error;
      if (batch.next < batch.jobs) {  // still in the list
        batch.next = batch.jobs;
        batches_.remove(&batch);
      }
    }
    --batch.under_way;
    if (batch.next == batch.jobs && batch.under_way == 0) batch_done_.notify_all();
  }
}

}  // namespace hugectr
