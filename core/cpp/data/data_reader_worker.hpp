// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/heap_ex.hpp"
#include "core/cpp/data/reader_ledger.hpp"

namespace hugectr {

class DataReaderWorkerGroup;

/// What a thread of stage 1 does: credit -> claim -> parse -> ready, until there is nothing left.
class DataReaderWorker {
 public:
  explicit DataReaderWorker(DataReaderWorkerGroup& group) : group_(group) {}
  void run();

 private:
  void read_all();

  DataReaderWorkerGroup& group_;
};

}  // namespace hugectr
