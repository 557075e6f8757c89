// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "core/cpp/base/thread_group.hpp"
#include "core/cpp/data/block_order.hpp"
#include "core/cpp/data/shard.hpp"

namespace hugectr {

/// Decoded blocks between the threads that decode ahead and those that parse batches. A block is
/// decoded once a pass, in the order in which it will be asked for, and dropped when its last row
/// has been parsed: memory holds the blocks under way and `ahead` more, never the file.
///
/// Blocks are decoded ahead only while all that are in memory fit into `budget` bytes. Beyond it
/// the oldest batch that is not parsed yet decodes what it needs itself, and nobody else does
/// anything: so reading goes on with any budget, and memory is at most the budget, the blocks of
/// one batch and one that it shares with the next.
///
/// Blocks are numbered by visit: epoch * number of blocks + place in the epoch's order. Those of
/// other processes (Shard) are not decoded and may not be asked for.
class BlockCache {
 public:
  /// `threads` decode ahead; 0: the thread that asks decodes.
  BlockCache(IBlockFormat& format, const ShuffleSpec& shuffle, std::size_t threads,
             std::uint64_t budget, bool repeat, Shard shard);
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// Forgets everything and starts again at this visit; of its block `rows_gone` are not wanted.
  /// Nobody may be using the cache.
  void restart(std::uint64_t visit, std::uint64_t rows_gone);
  /// Blocks up to this visit have been claimed by `batch`: decoding may go on beyond it. Batches
  /// are numbered in the order in which they are claimed, and never twice.
  void claimed(std::uint64_t visit, std::uint64_t batch);
  /// The batch needs no more blocks; also one that was never asked about, or already finished.
  void finished(std::uint64_t batch);
  /// The block of a visit that `batch` claimed; blocks until it is decoded. Rethrows the error of
  /// decoding it.
  std::shared_ptr<const IBlock> get(std::uint64_t visit, std::uint64_t batch);
  /// So many rows of the visit are parsed and not needed any more.
  void done(std::uint64_t visit, std::uint64_t rows);
  /// Rows of all blocks decoded so far.
  std::uint64_t decoded_rows() const;

 private:
  struct Entry {
    bool started = false, ready = false;
    std::shared_ptr<const IBlock> block;
    std::exception_ptr error;
    std::uint64_t rows_left = 0;
    std::uint64_t bytes = 0;
  };
  void start();
  void stop();
  void decode_all_ahead();
  void decode_ahead();
  // From here on visits are counted among this process's own.
  /// Makes entries up to and with `visit`. Call with the lock held.
  void open(std::uint64_t visit);
  void decode(std::uint64_t visit, std::unique_lock<std::mutex>& lock);
  /// Ends the decoding of a visit: the block of so many rows, or an error. Call with the lock held.
  void decoded_as(std::uint64_t visit, std::uint64_t rows, std::shared_ptr<const IBlock> decoded,
                  std::exception_ptr error);
  std::size_t block_of(std::uint64_t visit);
  /// Whether a thread may decode next_decode_, which is moved past blocks that were started.
  bool may_decode_ahead();

  IBlockFormat& format_;
  BlockOrder order_;  ///< of epoch_
  std::uint64_t epoch_ = 0;
  const std::size_t thread_count_;
  const std::uint64_t ahead_, budget_;
  const bool repeat_;
  const Shard shard_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Entry> entries_;
  std::uint64_t next_entry_ = 0;   ///< first visit without an entry
  std::uint64_t next_decode_ = 0;  ///< first visit no thread that decodes ahead has looked at
  std::uint64_t horizon_ = 0;      ///< visits below may be decoded
  std::uint64_t rows_gone_ = 0;    ///< of the first entry
  std::uint64_t decoded_rows_ = 0;
  std::uint64_t held_bytes_ = 0;     ///< of blocks being decoded or in memory
  std::set<std::uint64_t> batches_;  ///< claimed and not finished
  bool stopped_ = false;
  std::exception_ptr failure_;  ///< of a thread that decodes ahead, outside of any block
  ThreadGroup threads_;
};

}  // namespace hugectr
