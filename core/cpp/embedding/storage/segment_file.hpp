// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/cpp/embedding/storage/chunk_sums.hpp"
#include "core/cpp/embedding/storage/file_calls.hpp"
#include "core/cpp/embedding/storage/row_group.hpp"
#include "core/cpp/embedding/storage/segment_header.hpp"

namespace hugectr {

/// What the segments of a store have in common.
struct SegmentKind {
  std::string table;  ///< in messages; segments carry a sum of it
  GroupShape shape;   ///< of its groups
  std::size_t bytes;  ///< of a whole segment
  std::shared_ptr<FileCalls> files;
  /// Whether all numbers of a row are finite; null: nobody asks.
  std::function<bool(const std::byte* row)> is_finite{};

  /// Groups that a segment has room for.
  std::size_t groups() const;
};

/// One file of groups of rows: a block that says what it is, then groups, which are written once,
/// in order, and never changed.
///
///     0   8 bytes "HCTRROWS", uint32 version (1), uint32 bytes of a row, uint32 bytes of a group,
///     20  uint32 number of the segment, uint32 CRC-32 of the table's name,
///     28  uint32 CRC-32 of the header with zero here, uint64 owner: drawn when the store was made
///
/// Past the page cache where the file system can; else every write waits until it is on the disk,
/// so that no error comes when the row has left memory.
class SegmentFile {
 public:
  static constexpr std::size_t kHeaderBytes = 4096;
  static constexpr const char* kSuffix = ".rows";
  static std::string name_of(std::uint32_t number);

  /// A new file in a folder, with room for all of it. Throws NoRoom, or DataError; then there is
  /// none.
  static std::shared_ptr<SegmentFile> create(const SegmentKind& kind, const std::string& folder,
                                             std::uint32_t number, std::uint64_t owner);
  ~SegmentFile();
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  /// `count` groups from `first` on, to or from a buffer that begins on a block. What is written is
  /// on its way to the disk, past any buffer that could fail later, when this returns. Throws
  /// NoRoom or DataError; then none of the groups is there.
  void write(std::size_t first, std::size_t count, const std::byte* groups);
  void read(std::size_t first, std::size_t count, std::byte* groups) const;
  /// Throws DataError that names file and byte unless the group is what was written there.
  void check(std::size_t place, const std::byte* group) const;
  /// Reads all of the file and throws DataError unless it is what was written; not beside a write.
  /// It is not read once more, but for `again`: a file may rot later.
  void verify(bool again);
  /// What was found wrong with the file, by whoever read it, as its error said; empty: nothing yet.
  std::string damage() const;
  /// What the disk has refused to read, as its error said; empty: nothing, or all was read since.
  std::string unread() const;
  /// Notes what was found wrong, the first of it, and throws it as a DataError.
  [[noreturn]] void raise_damage(const std::string& what) const;

  /// Lets go of the room behind the first groups, which are all that were written.
  void cut_to(std::size_t groups);
  /// Whether the file ends with its groups: a link to one that does not would be longer than its
  /// sums say.
  bool was_cut() const { return cut_; }
  /// Waits until everything would survive a loss of power.
  void sync();
  /// Takes its name away: at once, or when nobody holds it any more.
  void remove() noexcept;
  void hold();
  void let_go() noexcept;

  /// Of a sealed file: CRC-32 of its chunks and of its first block, and whether all numbers in it
  /// are finite.
  const ChunkSums& sums() const { return sums_; }
  std::uint32_t head_sum() const { return head_sum_; }
  bool all_finite() const { return all_finite_; }
  /// Rows that are written next have infinities or NaN.
  void has_nonfinite() { all_finite_ = false; }

  std::uint32_t number() const { return number_; }
  const std::string& path() const { return path_; }
  std::uint64_t offset(std::size_t group) const {
    return kHeaderBytes + group * kind_.shape.bytes();
  }

 private:
  SegmentFile(const SegmentKind& kind, const std::string& folder, std::uint32_t number);
  void make_file();
  void write_header(std::uint64_t owner);
  void write_bytes(std::uint64_t offset, const std::byte* data, std::size_t bytes);
  void read_bytes(std::uint64_t offset, std::byte* data, std::size_t bytes) const;
  /// Reads everything in order: f(first byte, data, bytes), the head and then whole groups.
  template <class F>
  void read_all(const F& f) const;
  [[noreturn]] void fail(const char* what, std::uint64_t offset, int code) const;

  SegmentKind kind_;
  std::string path_;
  std::uint32_t number_;
  int descriptor_ = -1;
  bool direct_ = false;
  std::atomic<bool> unsynced_ = false, cut_ = false;
  ChunkSums sums_;  ///< of what was written, like the next two by the one who writes
  std::uint32_t head_sum_ = 0;
  bool all_finite_ = true;
  std::atomic<bool> verified_ = false;
  mutable std::mutex found_;  ///< guards what follows
  mutable std::string damage_, unread_;
  std::mutex name_;  ///< guards what follows
  std::size_t holds_ = 0;
  bool to_be_removed_ = false;
};

}  // namespace hugectr
