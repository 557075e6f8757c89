// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <thread>

#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/heap_ex.hpp"
#include "core/cpp/data/reader_ledger.hpp"

namespace hugectr {

class DataReaderWorkerGroup;

/// One thread of stage 1: credit -> claim -> parse -> ready, until there is nothing left.
class DataReaderWorker {
 public:
  explicit DataReaderWorker(DataReaderWorkerGroup& group);
  /// Waits for the thread; the heap must have been stopped or closed.
  ~DataReaderWorker();
  DataReaderWorker(const DataReaderWorker&) = delete;
  DataReaderWorker& operator=(const DataReaderWorker&) = delete;

 private:
  void run();
  void read_all();

  DataReaderWorkerGroup& group_;
  std::thread thread_;
};

}  // namespace hugectr
