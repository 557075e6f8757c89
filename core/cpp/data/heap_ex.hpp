// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/cpp/data/csr_chunk.hpp"

namespace hugectr {

/// The fixed set of chunks between workers and collector. A chunk is in one of three places:
/// credit (free), wait (a worker fills it), ready (parsed, handed out in sequence order).
///
/// A worker takes its credit BEFORE it claims a sequence number. So whoever holds the lowest
/// unfinished number also holds a chunk, and the queue can not lock up, however few chunks it has.
class HCTR_API HeapEx {
 public:
  explicit HeapEx(std::vector<CSRChunk> chunks);

  /// A free chunk; blocks. nullptr after stop() or close().
  CSRChunk* checkout_credit();
  /// Hands a parsed chunk on under chunk->sequence; `error` takes the place of its content.
  void commit_ready(CSRChunk* chunk, std::exception_ptr error = nullptr);
  /// The chunk of `sequence`; blocks. nullptr after stop() and at the end of the data. Throws the
  /// error committed under that number.
  CSRChunk* pop_ready(std::size_t sequence);
  /// Whether pop_ready(sequence) would return at once.
  bool has_ready(std::size_t sequence);
  struct Depths {
    std::size_t ready, credit;
  };
  /// How many chunks are parsed and wait, and how many are free.
  Depths depths();
  /// The chunk is free again.
  void return_credit(CSRChunk* chunk);

  /// The data ends before `sequence`: no more credits are handed out. `lost` samples were taken out
  /// of it by damage behind the last batch.
  void close(std::size_t sequence, std::uint64_t lost = 0);
  std::uint64_t lost_at_end();
  /// A worker failed outside of any batch.
  void fail(std::exception_ptr error);
  /// Wakes and refuses everyone, until reset().
  void stop();
  bool stopped();
  /// All chunks free again; nobody may be using them.
  void reset();

 private:
  struct Ready {
    CSRChunk* chunk;
    std::exception_ptr error;
  };
  bool decided(std::size_t sequence) const;

  std::mutex mutex_;
  std::condition_variable credit_changed_, ready_changed_;
  std::vector<CSRChunk> chunks_;
  std::vector<CSRChunk*> credit_;
  std::map<std::size_t, Ready> ready_;
  std::optional<std::size_t> end_;
  std::uint64_t lost_at_end_ = 0;
  std::exception_ptr failure_;
  bool stopped_ = false;
};

}  // namespace hugectr
