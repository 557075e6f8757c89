// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/block_cache.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"

namespace hugectr {

BlockCache::BlockCache(IBlockFormat& format, const ShuffleSpec& shuffle, std::size_t threads,
                       std::uint64_t budget, bool repeat, Shard shard)
    : format_(format),
      order_(format.blocks(), shuffle),
      thread_count_(format.decodes_ahead() ? threads : 0),
      // A block for every thread, and one that is being parsed while they work.
      ahead_(thread_count_ + 1),
      budget_(budget),
      repeat_(repeat),
      shard_(shard),
      threads_([this] {
        {
          const std::lock_guard lock(mutex_);
          stopped_ = true;
        }
        changed_.notify_all();
      }) {}

void BlockCache::start() {
  for (std::size_t i = 0; i < thread_count_; ++i) {
    threads_.start(concat("hctr-decode-", i), [this] { decode_ahead(); });
  }
}

void BlockCache::stop() { threads_.join(); }

void BlockCache::restart(std::uint64_t visit, std::uint64_t rows_gone) {
  stop();
  entries_.clear();
  batches_.clear();
  held_bytes_ = 0;
  failure_ = nullptr;
  const std::uint64_t own = shard_.owned_below(visit);
  next_entry_ = next_decode_ = own;
  horizon_ = own;
  rows_gone_ = shard_.owns(visit) ? rows_gone : 0;
  stopped_ = false;
}

void BlockCache::claimed(std::uint64_t visit, std::uint64_t batch) {
  {
    const std::lock_guard lock(mutex_);
    batches_.insert(batch);
    const std::uint64_t own = shard_.owned_below(visit + 1);
    if (own > 0) open(own - 1);
    std::uint64_t horizon = own + ahead_;
    if (!repeat_) horizon = std::min(horizon, shard_.owned_below(format_.blocks().size()));
    horizon_ = std::max(horizon_, horizon);
  }
  if (threads_.size() == 0 && thread_count_ > 0) start();
  changed_.notify_all();
}

void BlockCache::finished(std::uint64_t batch) {
  {
    const std::lock_guard lock(mutex_);
    if (batches_.erase(batch) == 0) return;
  }
  changed_.notify_all();  // another batch is the oldest now
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

HCTR_MAY_BE_UNWOUND void BlockCache::decode(std::uint64_t visit,
                                            std::unique_lock<std::mutex>& lock) {
  const std::size_t block = block_of(visit);
  {
    Entry& entry = entries_.at(visit);
    entry.started = true;
    entry.bytes = format_.blocks()[block].bytes;
    held_bytes_ += entry.bytes;
  }
  lock.unlock();
  std::shared_ptr<const IBlock> decoded;
  std::exception_ptr error;
  try {
    decoded = format_.decode(block);
  }
  HCTR_CATCH_FORCED_UNWIND(
      lock.lock();
      decoded_as(visit, 0, nullptr, std::make_exception_ptr(DataError(kThreadWasEnded))))
  catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  decoded_as(visit, format_.blocks()[block].rows, std::move(decoded), error);
}

void BlockCache::decoded_as(std::uint64_t visit, std::uint64_t rows,
                            std::shared_ptr<const IBlock> decoded, std::exception_ptr error) {
  Entry& entry = entries_.at(visit);
  entry.block = std::move(decoded);
  entry.error = error;
  entry.ready = true;
  if (error) {
    held_bytes_ -= std::exchange(entry.bytes, 0);
  } else {
    decoded_rows_ += rows;
  }
  changed_.notify_all();
}

HCTR_MAY_BE_UNWOUND void BlockCache::decode_ahead() {
  const auto fail = [this](std::exception_ptr error) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = std::move(error);
    }
    changed_.notify_all();
  };
  try {
    decode_all_ahead();
  }
  // No memory to note a block in: whoever waits for one must hear of it.
  HCTR_CATCH_FORCED_UNWIND(fail(std::make_exception_ptr(DataError(kThreadWasEnded))))
  catch (...) {
    fail(std::current_exception());
  }
}

void BlockCache::decode_all_ahead() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopped_ || may_decode_ahead(); });
    if (stopped_) return;
    const std::uint64_t visit = next_decode_++;
    open(visit);
    decode(visit, lock);
  }
}

bool BlockCache::may_decode_ahead() {
  for (; next_decode_ < horizon_; ++next_decode_) {
    if (next_decode_ >= next_entry_) break;
    const auto found = entries_.find(next_decode_);
    if (found != entries_.end() && !found->second.started) break;
  }
  if (next_decode_ >= horizon_) return false;
  const std::uint64_t bytes = format_.blocks()[block_of(next_decode_)].bytes;
  return bytes == 0 || held_bytes_ == 0 || held_bytes_ + bytes <= budget_;
}

std::shared_ptr<const IBlock> BlockCache::get(std::uint64_t visit, std::uint64_t batch) {
  std::unique_lock lock(mutex_);
  const auto found = entries_.find(visit / shard_.count);
  HCTR_CHECK(found != entries_.end(), "block ", visit, " of the data was not claimed");
  // Entries stay until all their rows are done, so the reference does too.
  Entry& entry = found->second;
  const auto is_mine = [&] {
    return !entry.started && (thread_count_ == 0 || batches_.empty() || batch <= *batches_.begin());
  };
  changed_.wait(lock, [&] { return entry.ready || stopped_ || failure_ || is_mine(); });
  if (!entry.ready && failure_) std::rethrow_exception(failure_);
  if (!entry.ready && !stopped_) decode(found->first, lock);
  if (entry.error) std::rethrow_exception(entry.error);
  HCTR_CHECK(entry.ready, "reading was stopped");
  return entry.block;
}

void BlockCache::done(std::uint64_t visit, std::uint64_t rows) {
  std::unique_lock lock(mutex_);
  const auto found = entries_.find(visit / shard_.count);
  if (found == entries_.end()) return;
  found->second.rows_left -= std::min(rows, found->second.rows_left);
  if (found->second.rows_left > 0 || !found->second.ready) return;
  std::shared_ptr<const IBlock> dropped = std::move(found->second.block);
  const std::uint64_t bytes = found->second.bytes;
  entries_.erase(found);
  lock.unlock();
  dropped.reset();  // takes time, and its bytes are only free afterwards
  lock.lock();
  held_bytes_ -= bytes;
  lock.unlock();
  changed_.notify_all();
}

std::uint64_t BlockCache::decoded_rows() const {
  const std::lock_guard lock(mutex_);
  return decoded_rows_;
}

}  // namespace hugectr
