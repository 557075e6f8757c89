// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/cpp/base/thread_group.hpp"
#include "core/cpp/embedding/storage/growing_array.hpp"
#include "core/cpp/embedding/storage/place_lists.hpp"
#include "core/cpp/embedding/storage/row_columns.hpp"
#include "core/cpp/embedding/storage/segment_store.hpp"

namespace hugectr {

/// What a DiskRows has done.
struct DiskRowCounts {
  std::uint64_t hits = 0, misses = 0;  ///< rows that were pinned for their content
  StoreCounts store;
};

/// A bounded number of places in memory as a cache of rows on a disk.
///
/// Who works on rows pins them: they are brought, all that are missing in one go, and stay at their
/// places until they are unpinned. Rows used least recently make room. Those that were changed are
/// written behind, by a thread, in that order and before they must go; a row leaves memory only
/// when its write has succeeded. A row nobody has given content is zero.
///
/// Errors are those of the SegmentStore, and OutOfMemory when the rows that are pinned at once need
/// more places. A call that throws has changed nothing (write(): no row but those of the call), and
/// the next one tries again. An error of the thread is thrown by the next call that needs the
/// disk; that the disk was full only if it still is, and by no call that reads alone. Any thread
/// may call. Rows of a call are distinct.
class DiskRows {
 public:
  /// `columns` hold `places` rows, belong to the caller, and are its to write to only where rows
  /// are pinned.
  DiskRows(std::vector<RowColumn> columns, std::size_t places, std::size_t max_rows,
           std::unique_ptr<SegmentStore> store);
  ~DiskRows();

  enum class Want { Content, Again, Nothing };
  /// places[i] is where rows[i] lies until unpin(). `Again`: as Content, but hits and misses do not
  /// count rows that were asked for before. `Nothing`: all of the row will be written, what it was
  /// is not read.
  void pin(std::span<const std::uint32_t> rows, Want want, std::span<std::uint32_t> places);
  /// Waits until a pin() of `rows` rows for Nothing would find room for all that are missing, and
  /// throws what it would throw. Such a pin() then never waits and never throws.
  void reserve(std::size_t rows);
  /// `changed`: what lies there is the row's new content.
  void unpin(std::span<const std::uint32_t> places, bool changed);

  /// Rows out and in without a place of theirs: rows[i] to or from place i of such columns;
  /// kPassedOver is no row. Moves no row in or out of memory.
  static constexpr std::uint32_t kPassedOver = UINT32_MAX;
  void read(std::span<const std::uint32_t> rows, std::span<const RowColumn> to);
  void write(std::span<const std::uint32_t> rows, std::span<const RowColumn> from);
  /// The rows, none of them pinned, are zero again: what was changed is not written.
  void forget(std::span<const std::uint32_t> rows);
  /// All rows are, pinned or not, and no error of theirs is heard of any more. Nobody works on
  /// them.
  void clear();

  /// Writes all that was changed and is not pinned; what then is in the store is everything.
  void flush();
  /// Where the content of these rows lies on the disk (SegmentStore::stored()); nowhere: it is in
  /// memory alone, or not worth sharing.
  StoredRows stored(std::span<const std::uint32_t> rows);
  /// As of SegmentStore.
  void check_undamaged() const { store_->check_undamaged(); }

  DiskRowCounts counts() const;
  /// Of lists and maps, beside the columns.
  std::size_t bytes_beside_rows() const;

 private:
  enum List : std::size_t { kFree, kClean, kDirty, kLists };
  struct Place {
    std::uint32_t row = 0;
    std::uint32_t pins = 0;
    bool mapped = false;   ///< place_of_ says that `row` is here
    bool changed = false;  ///< since it was read or written
    bool writing = false;  ///< a copy of it is on its way to the disk
  };
  using Lists = PlaceLists<kLists>;
  using Lock = std::unique_lock<std::mutex>;

  List list_of(const Place& place) const;
  bool listed(const Place& place) const { return place.pins == 0 && !place.writing; }
  std::uint32_t find(std::uint32_t row) const { return place_of_.at(row) - 1; }  ///< or kNone
  void hold(std::uint32_t place);
  void let_go(std::uint32_t place);
  std::uint32_t take_place();
  void give_back(std::uint32_t place);
  void raise_failure();
  void raise_failure_of_disk();
  void raise_failure_or_retry(Lock& lock);
  bool has_room(std::size_t missing) const;
  void wait_for_room(Lock& lock, std::size_t missing);
  void bring(std::span<const std::uint32_t> rows, std::span<const std::uint32_t> places);

  void write_behind();
  bool wants_cleaning() const;
  void clean(Lock& lock);

  const std::vector<RowColumn> columns_;
  const std::unique_ptr<SegmentStore> store_;
  mutable std::mutex mutex_;
  std::vector<Place> places_;
  Lists lists_;
  GrowingArray<std::uint32_t> place_of_;  ///< by row, + 1
  std::size_t pinned_ = 0, writing_ = 0, wanted_ = 0;
  std::uint64_t attempts_ = 0;  ///< to write behind
  std::size_t retrying_ = 0;    ///< calls that wait for one
  bool flushing_ = false, stop_ = false;
  std::uint64_t hits_ = 0, misses_ = 0;
  std::exception_ptr failure_;
  std::condition_variable work_, progress_;
  ThreadGroup thread_;
};

}  // namespace hugectr
