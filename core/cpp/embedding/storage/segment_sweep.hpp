// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "core/cpp/base/thread_group.hpp"
#include "core/cpp/embedding/storage/append_head.hpp"

namespace hugectr {

/// Rewrites what is alive in segments that mostly are not, in a thread of its own, and removes
/// them: a row's new copy is on the disk before its old one goes.
class SegmentSweep {
 public:
  SegmentSweep(const SegmentKind& kind, const std::string& folder, std::uint64_t owner,
               SegmentLedger& ledger);

  /// Something may be due; returns at once.
  void nudge();
  /// Room is short: sweeps at least one segment, if any is worth it, before it returns. False if
  /// none has gone since there were `swept_before`.
  bool make_room(std::uint64_t swept_before);
  /// All rows were forgotten: when it returns their segments are gone, and what went wrong with
  /// them is thrown no more.
  void begin_anew();
  /// While it lives nothing is swept, and no segment is open for sweeping.
  class Pause {
   public:
    explicit Pause(SegmentSweep& sweep);

   private:
    std::scoped_lock<std::mutex> lock_;
  };
  /// Ends the thread; nothing is swept any more.
  void end() { thread_.join(); }
  /// Throws what went wrong in the thread, once.
  void raise_failure();

  std::uint64_t swept_segments() const { return swept_; }
  std::uint64_t moved_rows() const { return moved_; }
  std::uint64_t read_groups() const { return read_groups_; }
  std::uint64_t written_groups() const { return head_.written_groups(); }

 private:
  void work();
  void sweep_due(bool room_is_short);
  bool sweep(const SegmentLedger::Segment& segment);
  void move_alive(const SegmentLedger::Segment& segment, std::size_t first, std::size_t groups);
  void append_alive();

  const SegmentKind kind_;
  SegmentLedger& ledger_;
  std::mutex sweeping_;  ///< held while a segment is swept; guards what follows
  AppendHead head_;
  AlignedBuffer read_;
  std::vector<std::uint32_t> rows_;
  std::vector<RowLocation> from_, to_;
  std::vector<const std::byte*> contents_;

  std::mutex mutex_;
  std::condition_variable asked_for_, answered_for_;
  std::uint64_t asked_ = 0, answered_ = 0;
  bool room_is_short_ = false;
  std::exception_ptr failure_;
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> swept_ = 0, moved_ = 0, read_groups_ = 0;
  ThreadGroup thread_;
};

}  // namespace hugectr
