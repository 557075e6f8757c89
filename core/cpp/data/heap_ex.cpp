// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/heap_ex.hpp"

#include <utility>

namespace hugectr {

HeapEx::HeapEx(std::vector<CSRChunk> chunks) : chunks_(std::move(chunks)) { reset(); }

CSRChunk* HeapEx::checkout_credit() {
  std::unique_lock lock(mutex_);
  credit_changed_.wait(lock, [&] { return stopped_ || end_ || failure_ || !credit_.empty(); });
  if (stopped_ || end_ || failure_) return nullptr;
  CSRChunk* chunk = credit_.back();
  credit_.pop_back();
  return chunk;
}

void HeapEx::commit_ready(CSRChunk* chunk, std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    ready_[chunk->sequence] = {chunk, std::move(error)};
  }
  ready_changed_.notify_all();
}

bool HeapEx::decided(std::size_t sequence) const {
  return stopped_ || failure_ || (end_ && sequence >= *end_) || ready_.contains(sequence);
}

bool HeapEx::has_ready(std::size_t sequence) {
  const std::lock_guard lock(mutex_);
  return decided(sequence);
}

HeapEx::Depths HeapEx::depths() {
  const std::lock_guard lock(mutex_);
  return {ready_.size(), credit_.size()};
}

CSRChunk* HeapEx::pop_ready(std::size_t sequence) {
  std::unique_lock lock(mutex_);
  ready_changed_.wait(lock, [&] { return decided(sequence); });
  if (stopped_) return nullptr;
  if (const auto found = ready_.find(sequence); found != ready_.end()) {
    const Ready ready = found->second;
    ready_.erase(found);
    if (ready.error) std::rethrow_exception(ready.error);
    return ready.chunk;
  }
  if (failure_) std::rethrow_exception(failure_);
  return nullptr;
}

void HeapEx::return_credit(CSRChunk* chunk) {
  {
    const std::lock_guard lock(mutex_);
    credit_.push_back(chunk);
  }
  credit_changed_.notify_one();
}

void HeapEx::close(std::size_t sequence, std::uint64_t lost) {
  {
    const std::lock_guard lock(mutex_);
    end_ = sequence;
    lost_at_end_ = lost;
  }
  credit_changed_.notify_all();
  ready_changed_.notify_all();
}

std::uint64_t HeapEx::lost_at_end() {
  const std::lock_guard lock(mutex_);
  return lost_at_end_;
}

void HeapEx::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(error);
  }
  credit_changed_.notify_all();
  ready_changed_.notify_all();
}

void HeapEx::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  credit_changed_.notify_all();
  ready_changed_.notify_all();
}

bool HeapEx::stopped() {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void HeapEx::reset() {
  const std::lock_guard lock(mutex_);
  stopped_ = false;
  end_.reset();
  lost_at_end_ = 0;
  failure_ = nullptr;
  ready_.clear();
  credit_.clear();
  for (CSRChunk& chunk : chunks_) credit_.push_back(&chunk);
}

}  // namespace hugectr
