// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/base/fork.hpp"
#include "core/cpp/embedding/storage/append_head.hpp"
#include "core/cpp/embedding/storage/folder_lock.hpp"
#include "core/cpp/embedding/storage/io_threads.hpp"
#include "core/cpp/embedding/storage/segment_ledger.hpp"
#include "core/cpp/embedding/storage/segment_sweep.hpp"
#include "core/cpp/embedding/storage/stored_rows.hpp"

namespace hugectr {

/// How a store is made.
struct StoreSettings {
  std::string folder;  ///< of this store alone; made if it is missing
  std::string table;   ///< in messages
  std::size_t row_bytes = 0;
  std::size_t max_rows = 0;     ///< row numbers are below
  std::uint64_t max_bytes = 0;  ///< of all segments
  std::size_t segment_bytes = std::size_t{64} << 20;
  std::shared_ptr<IoThreads> threads;
  std::shared_ptr<FileCalls> files = std::make_shared<FileCalls>();
  std::function<bool(const std::byte* row)> is_finite{};  ///< as of SegmentKind
};

/// Takes the i-th row of a call; called by several threads at once, for different rows.
using RowTarget = std::function<void(std::size_t i, const std::byte* row)>;

/// What a store has done and holds.
struct StoreCounts {
  std::uint64_t rows = 0, segments = 0, index_bytes = 0;
  std::uint64_t segment_bytes = 0;                    ///< of their groups
  std::uint64_t groups_written = 0, groups_read = 0;  ///< but for the sweep
  std::uint64_t segments_swept = 0, rows_moved = 0;   ///< by the sweep
  std::uint64_t bytes_written = 0, bytes_read = 0;    ///< of groups, with the sweep
};

/// Rows of one size by number, on a disk: groups of rows are appended to segments, a row that is
/// written anew leaves a hole where it was, and segments that are mostly holes are swept. Eight
/// bytes a row stay in memory.
///
/// A store is what lies below memory and no more durable than it: opened, its folder is emptied of
/// what a crash has left, and what is to stay is in a checkpoint, which links segments (stored()).
///
/// Errors are NoRoom (a full disk, a limit, the budget) or DataError (the disk, a damaged group)
/// and name table, file, byte and the way out. A call that throws has changed no row: each is as
/// before it or as it was to be written. What goes wrong in the sweep is thrown by the next call.
///
/// Any thread may read while one writes.
class SegmentStore {
 public:
  /// One segment to write to, two to sweep into, one full of rows.
  static constexpr std::size_t kLeastSegments = 4;

  /// Takes the folder over. Throws InvalidArgument that names the owner if another process, or
  /// another store of this one, has it.
  explicit SegmentStore(StoreSettings settings);
  ~SegmentStore();

  /// Each row once. When it returns they are on the disk, or on its way there past every buffer
  /// of this machine.
  void write(std::span<const std::uint32_t> rows, const RowSource& source);
  /// Calls `target` for those of the rows that were written; others are passed over. May name a row
  /// twice.
  void read(std::span<const std::uint32_t> rows, const RowTarget& target);
  /// The rows are as if they had never been written.
  void forget(std::span<const std::uint32_t> rows);
  /// The same of all rows; what was wrong with their segments is wrong no more, for those go.
  void clear();
  /// Waits until everything written would survive a loss of power, and for the sweep.
  void sync();

  /// Where rows lie in sealed segments that are worth sharing: at least half of their rows are
  /// alive, and all numbers in them are finite. The segments keep their names as long as they are
  /// held. What is written from now on goes to other segments. As check_undamaged().
  StoredRows stored(std::span<const std::uint32_t> rows);

  /// Throws DataError when somebody has found damage in a segment in which rows are alive, or could
  /// not read it and it can not be read now: what is saved of them would be no checkpoint.
  void check_undamaged();

  StoreCounts counts() const;
  const GroupShape& shape() const { return kind_.shape; }
  const std::string& table() const { return kind_.table; }

 private:
  /// stored(), nothing being written.
  StoredRows in_sealed_segments(std::span<const std::uint32_t> rows);
  /// Reads what could not be read, nothing being written or swept.
  void read_again();
  void refuse_damaged() const;
  std::size_t read_run(const GroupRun& run, std::span<const std::uint32_t> rows,
                       std::span<const RowRequest> requests, AlignedBuffer& buffer,
                       const RowTarget& target) const;

  const StoreSettings settings_;
  const SegmentKind kind_;
  const std::uint64_t owner_;
  MadeIn made_in_;
  const StoreBesideOthers beside_;
  FolderLock lock_;
  SegmentLedger ledger_;
  std::mutex writing_;  ///< guards head_, locations_ and has_written_
  AppendHead head_;
  std::vector<RowLocation> locations_;
  bool has_written_ = false;
  std::atomic<std::uint64_t> groups_read_ = 0;
  SegmentSweep sweep_;
};

}  // namespace hugectr
