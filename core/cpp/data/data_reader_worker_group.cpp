// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/data_reader_worker_group.hpp"

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"
#include "core/cpp/data/data_reader_worker.hpp"

namespace hugectr {

DataReaderWorkerGroup::DataReaderWorkerGroup(IBatchSource& source, HeapEx& heap,
                                             ReaderLedger& ledger, std::size_t batch_size,
                                             std::size_t num_workers)
    : source_(source), heap_(heap), ledger_(ledger), batch_size_(batch_size), threads_([this] {
        {
          const std::lock_guard lock(claim_mutex_);
          closed_ = true;
        }
        begun_.notify_all();
        heap_.stop();
      }) {
  for (std::size_t i = 0; i < num_workers; ++i) {
    threads_.start(concat("hctr-read-", i), [this] { DataReaderWorker(*this).run(); });
  }
}

void DataReaderWorkerGroup::begin() {
  {
    const std::lock_guard lock(claim_mutex_);
    begins_ = true;
  }
  begun_.notify_all();
}

HCTR_MAY_BE_UNWOUND bool DataReaderWorkerGroup::claim(RawBatch& raw, CSRChunk* chunk) {
  std::unique_lock lock(claim_mutex_);
  begun_.wait(lock, [&] { return begins_ || closed_; });
  if (closed_) {
    heap_.return_credit(chunk);
    return false;
  }
  chunk->sequence = next_sequence_;
  try {
    if (source_.claim(raw, batch_size_)) {
      ++next_sequence_;
      return true;
    }
    closed_ = true;
    heap_.return_credit(chunk);
    heap_.close(next_sequence_, raw.lost);
  }
  HCTR_CATCH_FORCED_UNWIND(closed_ = true)
  catch (...) {
    closed_ = true;
    heap_.commit_ready(chunk, std::current_exception());
    heap_.close(next_sequence_ + 1);
  }
  return false;
}

}  // namespace hugectr
