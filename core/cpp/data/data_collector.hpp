// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <deque>

#include "core/cpp/base/thread_group.hpp"
#include "core/cpp/data/bad_data_limit.hpp"
#include "core/cpp/data/batch_exchange.hpp"
#include "core/cpp/data/batch_slots.hpp"
#include "core/cpp/data/heap_ex.hpp"
#include "core/cpp/data/reader_ledger.hpp"

namespace hugectr {

/// Stage 2: one thread that takes chunks in sequence order, makes whole batches of them where
/// several processes share the decoding, and copies them to all local devices, each its own rows of
/// label, dense and weight and the whole CSR, on the memcpy streams.
class DataCollector {
 public:
  /// `exchange`: null when the chunks are whole.
  DataCollector(HeapEx& heap, BatchSlots& slots, ReaderLedger& ledger, const InputLayout& layout,
                std::size_t batch_size, ResourceManager& resources, BatchExchange* exchange,
                BadDataLimit limit);
  /// Stops heap and slots, joins the thread; with an exchange that waits for the other processes to
  /// do the same.
  ~DataCollector() = default;
  DataCollector(const DataCollector&) = delete;
  DataCollector& operator=(const DataCollector&) = delete;

 private:
  /// A chunk whose copies may still be running.
  struct InFlight {
    CSRChunk* chunk;
    BatchSlot* slot;
  };
  void run();
  void collect_all();
  CSRChunk* next_chunk(std::size_t sequence);
  /// The whole batch that this process's part of it belongs to; the part is free again.
  CSRChunk* make_whole(CSRChunk* part);
  void give_back(CSRChunk* chunk);
  void copy_to_devices(const CSRChunk& chunk, BatchSlot& slot);
  void copy_csr(const CSRChunk& chunk, std::size_t local_id, BatchSlot& slot);
  /// Gives back credits until at most `keep` chunks are in flight.
  void drain(std::size_t keep);

  HeapEx& heap_;
  BatchSlots& slots_;
  ReaderLedger& ledger_;
  const InputLayout& layout_;
  std::size_t batch_size_;
  ResourceManager& resources_;
  BatchExchange* const exchange_;
  BadDataLimit limit_;
  std::deque<InFlight> in_flight_;
  ThreadGroup thread_;
};

}  // namespace hugectr
