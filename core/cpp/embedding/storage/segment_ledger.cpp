// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/segment_ledger.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/embedding/storage/no_room.hpp"

namespace hugectr {

SegmentLedger::SegmentLedger(const SegmentKind& kind, std::size_t max_rows,
                             std::size_t most_segments)
    : kind_(kind),
      most_segments_(most_segments),
      most_bytes_(std::uint64_t{most_segments} * kind.bytes),
      index_(max_rows, kind.table + " index of disk") {}

std::size_t SegmentLedger::rows_kept(std::size_t groups, const GroupShape& shape) {
  return (groups - std::max<std::size_t>(groups / 16, 1)) * shape.capacity() + 1;
}

std::uint64_t SegmentLedger::bytes_of_rows() const {
  std::uint64_t bytes = 0;
  for (const auto& [number, segment] : segments_) {
    bytes += segment.sealed ? segment.bytes : segment.file->offset(segment.groups);
  }
  return bytes;
}

std::uint32_t SegmentLedger::begin_segment(bool for_sweeping) {
  constexpr std::size_t kForSweeping = 2;
  const std::scoped_lock lock(mutex_);
  const std::size_t more = for_sweeping ? 1 : 1 + kForSweeping;
  const std::uint64_t used = for_sweeping ? bytes_ : bytes_of_rows();
  // Saves end segments early: short ones are merged before there are twice as many as whole ones.
  if (used + more * kind_.bytes > most_bytes_ || files_ + more > 2 * most_segments_) {
    throw NoRoom(concat(
        "table '", kind_.table, "': its ", most_segments_, " segments of ", kind_.bytes,
        " bytes on disk are full, with ", rows_alive_,
        " rows; no row is lost: evict rows (Model.evict), and training goes on, or save the model "
        "and resume it in one with a larger budget in Memory(disk=)"));
  }
  bytes_ += kind_.bytes;
  ++files_;
  return next_++;
}

void SegmentLedger::cancel_segment() {
  const std::scoped_lock lock(mutex_);
  bytes_ -= kind_.bytes;
  --files_;
}

void SegmentLedger::add(const Segment& segment) {
  const std::scoped_lock lock(mutex_);
  segments_.emplace(segment.file->number(), segment).first->second.bytes = kind_.bytes;
}

void SegmentLedger::seal(std::uint32_t number, std::size_t groups, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  Segment& segment = segments_.at(number);
  segment.groups = groups;
  bytes_ -= std::exchange(segment.bytes, bytes) - bytes;
  segment.sealed = true;
  if (is_due(segment)) due_.insert(number);
}

bool SegmentLedger::is_due(const Segment& segment) const {
  if (segment.alive == 0) return segment.sealed;
  const std::size_t written = segment.groups * kind_.shape.capacity();
  return segment.sealed && !segment.damaged && 2 * segment.alive < written;
}

void SegmentLedger::mark_damaged(std::uint32_t number) {
  const std::scoped_lock lock(mutex_);
  const auto found = segments_.find(number);
  if (found != segments_.end()) found->second.damaged = true;
  due_.erase(number);
}

void SegmentLedger::mark_unread(std::uint32_t number) {
  const std::scoped_lock lock(mutex_);
  const auto found = segments_.find(number);
  if (found == segments_.end() || ++found->second.failed_reads < kReadTries) return;
  found->second.damaged = true;
  due_.erase(number);
}

void SegmentLedger::mark_read(std::uint32_t number) {
  const std::scoped_lock lock(mutex_);
  const auto found = segments_.find(number);
  if (found == segments_.end()) return;
  found->second.damaged = false;
  found->second.failed_reads = 0;
  if (is_due(found->second)) due_.insert(number);
}

bool SegmentLedger::drop(std::uint32_t number) {
  const std::scoped_lock lock(mutex_);
  const auto found = segments_.find(number);
  if (found == segments_.end() || found->second.alive > 0) return false;
  bytes_ -= found->second.bytes;
  --files_;
  segments_.erase(found);
  due_.erase(number);
  return true;
}

void SegmentLedger::leave(RowLocation at) {
  if (at.segment == 0) return;
  Segment& old = segments_.at(at.segment);
  --old.alive;
  --rows_alive_;
  if (is_due(old)) due_.insert(at.segment);
}

void SegmentLedger::place(std::span<const std::uint32_t> rows, std::span<const RowLocation> at,
                          std::size_t groups) {
  if (rows.empty()) return;
  const std::uint32_t most = *std::max_element(rows.begin(), rows.end());
  const std::scoped_lock lock(mutex_);
  index_.grow_to(std::size_t{most} + 1);
  Segment& segment = segments_.at(at[0].segment);
  segment.groups = groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    leave(std::exchange(index_[rows[i]], at[i]));
    ++segment.alive;
    ++rows_alive_;
  }
}

void SegmentLedger::move(std::span<const std::uint32_t> rows, std::span<const RowLocation> from,
                         std::span<const RowLocation> to, std::size_t groups) {
  if (rows.empty()) return;
  const std::scoped_lock lock(mutex_);
  Segment& segment = segments_.at(to[0].segment);
  segment.groups = groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (index_.at(rows[i]) != from[i]) continue;  // written anew meanwhile, or forgotten
    index_[rows[i]] = to[i];
    leave(from[i]);
    ++segment.alive;
    ++rows_alive_;
  }
}

void SegmentLedger::forget(std::span<const std::uint32_t> rows) {
  const std::scoped_lock lock(mutex_);
  for (const std::uint32_t row : rows) {
    if (row < index_.size()) leave(std::exchange(index_[row], RowLocation{}));
  }
}

void SegmentLedger::clear() {
  const std::scoped_lock lock(mutex_);
  for (std::size_t row = 0; row < index_.size(); ++row) {
    leave(std::exchange(index_[row], RowLocation{}));
  }
}

RowLocation SegmentLedger::find(std::uint32_t row) const {
  const std::scoped_lock lock(mutex_);
  return index_.at(row);
}

std::vector<GroupRun> SegmentLedger::find(std::span<const std::uint32_t> rows,
                                          std::size_t most_groups,
                                          std::vector<RowRequest>& requests) const {
  requests.clear();
  std::vector<GroupRun> runs;
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowLocation at = index_.at(rows[i]);
    if (at.segment != 0) requests.push_back({at, i});
  }
  std::sort(requests.begin(), requests.end(),
            [](const RowRequest& a, const RowRequest& b) { return a.at < b.at; });
  for (std::size_t k = 0; k < requests.size(); ++k) {
    const RowLocation at = requests[k].at;
    if (!runs.empty() && runs.back().file->number() == at.segment) {
      GroupRun& run = runs.back();
      const std::size_t next = run.first + run.groups;
      if (at.group < next || (at.group == next && run.groups < most_groups)) {
        run.groups = at.group - run.first + 1;
        run.end = k + 1;
        continue;
      }
      runs.push_back({run.file, at.group, 1, k, k + 1});
      continue;
    }
    runs.push_back({segments_.at(at.segment).file, at.group, 1, k, k + 1});
  }
  return runs;
}

SegmentLedger::Segment SegmentLedger::due_for_sweep(bool room_is_short) const {
  const std::scoped_lock lock(mutex_);
  if (!due_.empty()) return segments_.at(*due_.begin());
  Segment best;
  if (!room_is_short) return best;
  const std::size_t kept = rows_kept(kind_.groups(), kind_.shape);
  for (const auto& [number, segment] : segments_) {
    if (!segment.sealed || segment.damaged || segment.alive >= kept) continue;
    if (!best.file || segment.alive < best.alive) best = segment;
  }
  return best;
}

bool SegmentLedger::any_due() const {
  const std::scoped_lock lock(mutex_);
  return !due_.empty();
}

std::map<std::uint32_t, SegmentLedger::Segment> SegmentLedger::segments() const {
  const std::scoped_lock lock(mutex_);
  return segments_;
}

std::vector<RowLocation> SegmentLedger::locations() const {
  const std::scoped_lock lock(mutex_);
  if (index_.size() == 0) return {};
  return {&index_[0], &index_[0] + index_.size()};
}

std::size_t SegmentLedger::rows_alive() const {
  const std::scoped_lock lock(mutex_);
  return rows_alive_;
}

std::size_t SegmentLedger::index_bytes() const {
  const std::scoped_lock lock(mutex_);
  return index_.bytes();
}

}  // namespace hugectr
