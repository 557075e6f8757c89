// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/segment_sweep.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/cpp/embedding/storage/no_room.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kSweepBytes = std::size_t{1} << 20;

}  // namespace

SegmentSweep::SegmentSweep(const SegmentKind& kind, const std::string& folder, std::uint64_t owner,
                           SegmentLedger& ledger)
    : kind_(kind), ledger_(ledger), head_(kind, folder, owner, ledger, true), thread_([this] {
        const std::scoped_lock lock(mutex_);
        stop_ = true;
        asked_for_.notify_all();
        answered_for_.notify_all();
      }) {
  thread_.start("sweep of rows", [this] { work(); });
}

SegmentSweep::Pause::Pause(SegmentSweep& sweep) : lock_(sweep.sweeping_) { sweep.head_.seal(); }

void SegmentSweep::nudge() {
  const std::scoped_lock lock(mutex_);
  ++asked_;
  asked_for_.notify_all();
}

bool SegmentSweep::make_room(std::uint64_t swept_before) {
  std::unique_lock lock(mutex_);
  const std::uint64_t mine = ++asked_;
  room_is_short_ = true;
  asked_for_.notify_all();
  answered_for_.wait(lock, [&] { return stop_ || answered_ >= mine; });
  return swept_ != swept_before;
}

void SegmentSweep::begin_anew() {
  std::unique_lock lock(mutex_);
  const std::uint64_t mine = ++asked_;
  asked_for_.notify_all();
  answered_for_.wait(lock, [&] { return stop_ || answered_ >= mine; });
  failure_ = nullptr;
}

void SegmentSweep::raise_failure() {
  std::unique_lock lock(mutex_);
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr)) {
    lock.unlock();
    std::rethrow_exception(failure);
  }
}

void SegmentSweep::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_for_.wait(lock, [&] { return stop_ || asked_ != answered_; });
    if (stop_) return;
    const std::uint64_t mine = asked_;
    const bool room_is_short = std::exchange(room_is_short_, false);
    lock.unlock();
    std::exception_ptr failure;
    try {
      sweep_due(room_is_short);
    } catch (const NoRoom&) {
      // Whoever writes next meets it, and says so.
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    answered_ = mine;
    answered_for_.notify_all();
  }
}

void SegmentSweep::sweep_due(bool room_is_short) {
  bool any = false;
  while (!stop_) {
    const std::scoped_lock lock(sweeping_);
    // Where rows go: got while there is room, since a full disk is swept into it.
    try {
      head_.prepare();
    } catch (const NoRoom&) {
    }
    const SegmentLedger::Segment segment = ledger_.due_for_sweep(room_is_short && !any);
    if (!segment.file) return;
    if (sweep(segment)) any = true;
  }
}

bool SegmentSweep::sweep(const SegmentLedger::Segment& segment) {
  const std::size_t step = std::max<std::size_t>(kSweepBytes / kind_.shape.bytes(), 1);
  for (std::size_t first = 0; first < segment.groups && segment.alive > 0; first += step) {
    if (stop_) return false;
    move_alive(segment, first, std::min(step, segment.groups - first));
  }
  if (!ledger_.drop(segment.file->number())) {
    // Rows that its groups do not show: they are there for whoever looks into the file.
    ledger_.mark_damaged(segment.file->number());
    segment.file->raise_damage(
        concat("table '", kind_.table, "': '", segment.file->path(),
               "' lacks rows that its index names; go on from the last checkpoint"));
  }
  segment.file->remove();
  ++swept_;
  return true;
}

void SegmentSweep::move_alive(const SegmentLedger::Segment& segment, std::size_t first,
                              std::size_t groups) {
  const GroupShape& shape = kind_.shape;
  std::byte* data = read_.with(groups * shape.bytes());
  rows_.clear();
  from_.clear();
  contents_.clear();
  try {
    segment.file->read(first, groups, data);
  } catch (const Error&) {
    ledger_.mark_unread(segment.file->number());
    throw;
  }
  read_groups_ += groups;
  try {
    for (std::size_t g = 0; g < groups; ++g) {
      const std::byte* group = data + g * shape.bytes();
      segment.file->check(first + g, group);
      for (std::size_t p = 0; p < shape.rows(group); ++p) {
        const RowLocation at{segment.file->number(), static_cast<std::uint16_t>(first + g),
                             static_cast<std::uint16_t>(p)};
        const std::uint32_t number = shape.number(group, p);
        if (ledger_.find(number) != at) continue;
        rows_.push_back(number);
        from_.push_back(at);
        contents_.push_back(shape.row(group, p));
      }
    }
  } catch (const Error&) {
    ledger_.mark_damaged(segment.file->number());  // left as it is, with all that is alive in it
    throw;
  }
  append_alive();
}

void SegmentSweep::append_alive() {
  to_.resize(rows_.size());
  for (std::size_t done = 0; done < rows_.size();) {
    const std::size_t left = rows_.size() - done;
    const std::size_t n = head_.append(
        std::span(rows_).subspan(done),
        [&](std::size_t i, std::byte* row) {
          std::memcpy(row, contents_[done + i], kind_.shape.row_bytes());
        },
        std::span(to_).subspan(done, left));
    ledger_.move(std::span(rows_).subspan(done, n), std::span(from_).subspan(done, n),
                 std::span(to_).subspan(done, n), head_.groups());
    done += n;
    moved_ += n;
  }
}

}  // namespace hugectr
