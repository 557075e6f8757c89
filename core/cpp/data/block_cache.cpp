// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/block_cache.hpp"

#include <algorithm>

#include "core/cpp/base/error.hpp"

namespace hugectr {

BlockCache::BlockCache(IBlockFormat& format, const ShuffleSpec& shuffle, std::size_t threads,
                       bool repeat, Shard shard)
    : format_(format),
      order_(format.blocks(), shuffle),
      thread_count_(format.decodes_ahead() ? threads : 0),
      // A block for every thread, and one that is being parsed while they work.
      ahead_(thread_count_ + 1),
      repeat_(repeat),
      shard_(shard) {}

BlockCache::~BlockCache() { stop(); }

void BlockCache::start() {
  for (std::size_t i = 0; i < thread_count_; ++i) {
    threads_.emplace_back([this] { decode_ahead(); });
  }
}

void BlockCache::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void BlockCache::restart(std::uint64_t visit, std::uint64_t rows_gone) {
  stop();
  entries_.clear();
  const std::uint64_t own = shard_.owned_below(visit);
  next_entry_ = next_decode_ = own;
  horizon_ = own;
  rows_gone_ = shard_.owns(visit) ? rows_gone : 0;
  stopped_ = false;
}

void BlockCache::claimed(std::uint64_t visit) {
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t own = shard_.owned_below(visit + 1);
    if (own > 0) open(own - 1);
    std::uint64_t horizon = own + ahead_;
    if (!repeat_) horizon = std::min(horizon, shard_.owned_below(format_.blocks().size()));
    horizon_ = std::max(horizon_, horizon);
  }
  if (threads_.empty() && thread_count_ > 0) start();
  changed_.notify_all();
}

std::size_t BlockCache::block_of(std::uint64_t visit) {
  visit = shard_.visit(visit);
  const std::uint64_t blocks = format_.blocks().size(), epoch = visit / blocks;
  if (epoch != epoch_) {
    order_.start_epoch(epoch);
    epoch_ = epoch;
  }
  return order_.block_order()[visit % blocks];
}

void BlockCache::open(std::uint64_t visit) {
  for (; next_entry_ <= visit; ++next_entry_) {
    Entry& entry = entries_[next_entry_];
    entry.rows_left = format_.blocks()[block_of(next_entry_)].rows - rows_gone_;
    rows_gone_ = 0;
  }
}

void BlockCache::decode(std::uint64_t visit, std::unique_lock<std::mutex>& lock) {
  const std::size_t block = block_of(visit);
  entries_.at(visit).started = true;
  lock.unlock();
  std::shared_ptr<const IBlock> decoded;
  std::exception_ptr error;
  try {
    decoded = format_.decode(block);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  Entry& entry = entries_.at(visit);
  entry.block = std::move(decoded);
  entry.error = error;
  entry.ready = true;
  if (!error) decoded_rows_ += format_.blocks()[block].rows;
  changed_.notify_all();
}

void BlockCache::decode_ahead() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopped_ || next_decode_ < horizon_; });
    if (stopped_) return;
    const std::uint64_t visit = next_decode_++;
    open(visit);
    decode(visit, lock);
  }
}

std::shared_ptr<const IBlock> BlockCache::get(std::uint64_t visit) {
  std::unique_lock lock(mutex_);
  const auto found = entries_.find(visit / shard_.count);
  HCTR_CHECK(found != entries_.end(), "block ", visit, " of the data was not claimed");
  // Entries stay until all their rows are done, so the reference does too.
  Entry& entry = found->second;
  if (thread_count_ == 0 && !entry.started) decode(found->first, lock);
  changed_.wait(lock, [&] { return entry.ready || stopped_; });
  if (entry.error) std::rethrow_exception(entry.error);
  HCTR_CHECK(entry.ready, "reading was stopped");
  return entry.block;
}

void BlockCache::done(std::uint64_t visit, std::uint64_t rows) {
  std::shared_ptr<const IBlock> dropped;  // freed outside the lock
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(visit / shard_.count);
  if (found == entries_.end()) return;
  found->second.rows_left -= std::min(rows, found->second.rows_left);
  if (found->second.rows_left > 0 || !found->second.ready) return;
  dropped = std::move(found->second.block);
  entries_.erase(found);
}

std::uint64_t BlockCache::decoded_rows() const {
  const std::lock_guard lock(mutex_);
  return decoded_rows_;
}

}  // namespace hugectr
