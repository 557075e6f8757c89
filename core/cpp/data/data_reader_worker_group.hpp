// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/data_reader_worker.hpp"
#include "core/cpp/data/heap_ex.hpp"
#include "core/cpp/data/reader_ledger.hpp"

namespace hugectr {

/// The workers of one pass over a source. Numbers are given out together with the data, under one
/// lock, so the order of batches is that of the data whatever the number of workers.
class DataReaderWorkerGroup {
 public:
  DataReaderWorkerGroup(IBatchSource& source, HeapEx& heap, ReaderLedger& ledger,
                        std::size_t batch_size, std::size_t num_workers);
  /// Stops the heap and joins all workers.
  ~DataReaderWorkerGroup();
  DataReaderWorkerGroup(const DataReaderWorkerGroup&) = delete;
  DataReaderWorkerGroup& operator=(const DataReaderWorkerGroup&) = delete;

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
  bool closed_ = false;
  std::vector<std::unique_ptr<DataReaderWorker>> workers_;
};

}  // namespace hugectr
