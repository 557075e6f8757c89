// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "core/cpp/base/thread_group.hpp"
#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/heap_ex.hpp"
#include "core/cpp/data/reader_ledger.hpp"

namespace hugectr {

/// The workers of one pass over a source. Numbers are given out together with the data, under one
/// lock, so the order of batches is that of the data whatever the number of workers. None is given
/// out before begin(): what fails before it has not moved the source.
class DataReaderWorkerGroup {
 public:
  DataReaderWorkerGroup(IBatchSource& source, HeapEx& heap, ReaderLedger& ledger,
                        std::size_t batch_size, std::size_t num_workers);
  DataReaderWorkerGroup(const DataReaderWorkerGroup&) = delete;
  DataReaderWorkerGroup& operator=(const DataReaderWorkerGroup&) = delete;

  /// Lets the workers claim.
  void begin();
  /// Claims the next batch for a worker that holds `chunk`. False when the worker shall end: the
  /// data has ended or is broken, and the chunk is no longer the worker's.
  bool claim(RawBatch& raw, CSRChunk* chunk);

  IBatchSource& source() { return source_; }
  HeapEx& heap() { return heap_; }
  ReaderLedger& ledger() { return ledger_; }
  std::size_t batch_size() const { return batch_size_; }

 private:
  IBatchSource& source_;
  HeapEx& heap_;
  ReaderLedger& ledger_;
  std::size_t batch_size_;
  std::mutex claim_mutex_;
  std::size_t next_sequence_ = 0;
  std::condition_variable begun_;
  bool begins_ = false, closed_ = false;
  ThreadGroup threads_;  ///< ends with the heap
};

}  // namespace hugectr
