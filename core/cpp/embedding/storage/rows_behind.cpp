// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "core/cpp/embedding/storage/disk_rows.hpp"
#include "core/cpp/embedding/storage/no_room.hpp"

/// How rows of a DiskRows are written behind, and who hears what went wrong.
namespace hugectr {
namespace {

/// Rows written at a time take about this.
constexpr std::size_t kWriteBehindBytes = std::size_t{1} << 20;

}  // namespace

void DiskRows::raise_failure() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void DiskRows::raise_failure_of_disk() {
  if (!failure_) return;
  try {
    std::rethrow_exception(failure_);
  } catch (const NoRoom&) {  // is for who writes
  } catch (...) {
    failure_ = nullptr;
    throw;
  }
}

void DiskRows::raise_failure_or_retry(Lock& lock) {
  try {
    raise_failure();
  } catch (const NoRoom&) {
    // Somebody may have made room since: what counts is whether it can be written now.
    const std::uint64_t before = attempts_;
    ++retrying_;
    work_.notify_all();
    progress_.wait(lock, [&] { return stop_ || attempts_ != before || lists_.size(kDirty) == 0; });
    --retrying_;
    raise_failure();
  }
}

void DiskRows::flush() {
  Lock lock(mutex_);
  flushing_ = true;
  try {
    raise_failure_or_retry(lock);
    do {
      raise_failure();
      work_.notify_all();
      if (lists_.size(kDirty) == 0 && writing_ == 0) break;
      progress_.wait(lock);
    } while (!stop_);
  } catch (...) {
    flushing_ = false;
    throw;
  }
  flushing_ = false;
}

bool DiskRows::wants_cleaning() const {
  if (lists_.size(kDirty) == 0 || failure_) return false;
  const std::size_t available = lists_.size(kFree) + lists_.size(kClean);
  return flushing_ || retrying_ > 0 || available < std::max(wanted_, places_.size() / 8);
}

void DiskRows::write_behind() {
  Lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return stop_ || wants_cleaning(); });
    if (stop_) return;
    clean(lock);
    progress_.notify_all();
  }
}

void DiskRows::clean(Lock& lock) {
  const std::size_t row_bytes = store_->shape().row_bytes();
  const std::size_t most = std::max(
      kWriteBehindBytes / store_->shape().bytes() * store_->shape().capacity(), std::size_t{1});
  std::vector<std::uint32_t> rows, chosen;
  std::vector<std::byte> records;
  std::size_t count = 0;
  try {
    count = std::min(most, lists_.size(kDirty));
    rows.reserve(count);
    chosen.reserve(count);
    records.resize(count * row_bytes);
  } catch (const std::bad_alloc&) {
    failure_ = std::current_exception();
    ++attempts_;
    return;
  }
  while (chosen.size() < count) {
    const std::uint32_t at = lists_.oldest(kDirty);
    lists_.take_out(kDirty, at);
    Place& place = places_[at];
    place.writing = true;
    place.changed = false;  // whoever changes it from now on says so
    gather_row(columns_, at, &records[rows.size() * row_bytes]);
    rows.push_back(place.row);
    chosen.push_back(at);
  }
  writing_ += chosen.size();
  lock.unlock();
  std::exception_ptr failure;
  try {
    store_->write(rows, [&](std::size_t i, std::byte* row) {
      std::memcpy(row, &records[i * row_bytes], row_bytes);
    });
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  writing_ -= chosen.size();
  for (const std::uint32_t at : chosen) {
    Place& place = places_[at];
    place.writing = false;
    place.changed |= failure != nullptr;  // nothing left memory
    if (listed(place)) lists_.push_newest(list_of(place), at);
  }
  if (failure) failure_ = failure;
  ++attempts_;
}

}  // namespace hugectr
