// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/embedding/storage/growing_array.hpp"
#include "core/cpp/embedding/storage/segment_file.hpp"

namespace hugectr {

/// A row that is asked for: the i-th of a call, and where it lies.
struct RowRequest {
  RowLocation at;
  std::size_t i;
};

/// Groups next to each other with rows of one call, for one read.
struct GroupRun {
  std::shared_ptr<SegmentFile> file;  ///< also when the sweep has removed it since
  std::size_t first, groups;          ///< in the segment
  std::size_t begin, end;             ///< of the requests
};

/// What is where: the index of a store, and how many rows of each segment are alive. Any thread may
/// call; a call is seen whole or not at all.
class SegmentLedger {
 public:
  /// What is known of a segment.
  struct Segment {
    std::shared_ptr<SegmentFile> file;
    std::size_t groups = 0;   ///< written
    std::uint64_t bytes = 0;  ///< that its file takes; until it is sealed, a whole segment's
    std::size_t alive = 0;    ///< rows whose location is here
    bool sealed = false;      ///< nothing is written to it any more
    bool damaged = false;     ///< found while sweeping: left as it is
    int failed_reads = 0;     ///< of sweeps
  };

  /// Files of no more than `most_segments` whole ones together. Two are kept for sweeping: what is
  /// alive in one may fill the one that is open, and then lies in three.
  SegmentLedger(const SegmentKind& kind, std::size_t max_rows, std::size_t most_segments);

  /// Rows of a whole segment that is not swept, however short room is: what is not alive in it is
  /// a sixteenth and a group at least in all others, so that sweeping them ends.
  static std::size_t rows_kept(std::size_t groups, const GroupShape& shape);

  /// The number of a segment that may be made now, counted already. Throws NoRoom.
  std::uint32_t begin_segment(bool for_sweeping);
  void cancel_segment();  ///< it could not be made
  void add(const Segment& segment);
  /// `bytes`: of its file, which may have been cut.
  void seal(std::uint32_t number, std::size_t groups, std::uint64_t bytes);
  void mark_damaged(std::uint32_t number);
  /// A sweep could not read it, which may be over soon. It is left as it is, too, when that has
  /// happened kReadTries times.
  void mark_unread(std::uint32_t number);
  static constexpr int kReadTries = 3;
  /// All of it was read since: it may be swept again.
  void mark_read(std::uint32_t number);
  /// Takes a segment out in which nothing is alive. False if something is.
  bool drop(std::uint32_t number);

  /// Rows were written there, groups of `segment` up to `groups`.
  void place(std::span<const std::uint32_t> rows, std::span<const RowLocation> at,
             std::size_t groups);
  /// The same, of those rows alone that still are where they were.
  void move(std::span<const std::uint32_t> rows, std::span<const RowLocation> from,
            std::span<const RowLocation> to, std::size_t groups);
  void forget(std::span<const std::uint32_t> rows);
  void clear();  ///< all rows are forgotten

  RowLocation find(std::uint32_t row) const;
  /// Sorts what is asked for into reads of at most `most_groups`; rows that are nowhere are left
  /// out.
  std::vector<GroupRun> find(std::span<const std::uint32_t> rows, std::size_t most_groups,
                             std::vector<RowRequest>& requests) const;

  /// A sealed segment less than half alive, or, when room is short, that with the fewest rows
  /// alive if there are fewer than rows_kept() of them. Without a file if there is none.
  Segment due_for_sweep(bool room_is_short) const;
  bool any_due() const;

  /// The state as a whole, for checkpoints.
  std::map<std::uint32_t, Segment> segments() const;
  std::vector<RowLocation> locations() const;

  std::size_t rows_alive() const;
  std::size_t index_bytes() const;

 private:
  void leave(RowLocation at);
  bool is_due(const Segment& segment) const;
  /// Of files whose last byte is known, and of what the sweep has written so far to its own.
  std::uint64_t bytes_of_rows() const;

  const SegmentKind kind_;
  const std::size_t most_segments_;
  const std::uint64_t most_bytes_;
  mutable std::mutex mutex_;
  GrowingArray<RowLocation> index_;
  std::map<std::uint32_t, Segment> segments_;
  std::set<std::uint32_t> due_;  ///< sealed, less than half alive
  std::uint32_t next_ = 1;
  std::uint64_t bytes_ = 0;  ///< of all files
  std::size_t files_ = 0, rows_alive_ = 0;
};

}  // namespace hugectr
