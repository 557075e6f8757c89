// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/data_reader_worker.hpp"

#include <limits>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"
#include "core/cpp/data/data_reader_worker_group.hpp"

namespace hugectr {
namespace {

/// No kernel may see offsets that have gone round.
void check_offsets_count(const CSRChunk& chunk) {
  for (std::size_t i = 0; i < chunk.sparse.size(); ++i) {
    HCTR_CHECK(chunk.sparse[i].nnz <= std::numeric_limits<offset_t>::max(), "sparse input ", i,
               ": a batch has ", chunk.sparse[i].nnz,
               " keys, more than 32-bit row offsets count: use a smaller batch");
  }
}

}  // namespace

HCTR_MAY_BE_UNWOUND void DataReaderWorker::run() {
  try {
    read_all();
  }
  HCTR_CATCH_FORCED_UNWIND(group_.heap().fail(std::make_exception_ptr(DataError(kThreadWasEnded))))
  catch (...) {
    group_.heap().fail(std::current_exception());
  }
}

HCTR_MAY_BE_UNWOUND void DataReaderWorker::read_all() {
  HeapEx& heap = group_.heap();
  const auto raw = group_.source().make_raw_batch();
  while (true) {
    CSRChunk* chunk = nullptr;
    {
      const ReaderLedger::Timer timer(group_.ledger(), &ReaderMetrics::credit_seconds);
      chunk = heap.checkout_credit();
    }
    if (!chunk || !group_.claim(*raw, chunk)) return;
    chunk->next = raw->next;
    std::exception_ptr error;
    try {
      const ReaderLedger::Timer timer(group_.ledger(), &ReaderMetrics::parse_seconds);
      group_.source().parse(*raw, group_.batch_size(), *chunk);
      check_offsets_count(*chunk);
    }
    HCTR_CATCH_FORCED_UNWIND()
    catch (...) {
      // Kept in the place of the batch, so that what came before it is still delivered.
      error = std::current_exception();
    }
    heap.commit_ready(chunk, error);
  }
}

}  // namespace hugectr
