// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/embedding/storage/io_threads.hpp"
#include "core/cpp/embedding/storage/row_group.hpp"

namespace hugectr {

/// Where a row lies in the linked segments of a checkpoint: in bits 32 and up the segment, counted
/// from 0, in bits 16 to 31 its group there, below its position in that. Ascending places are the
/// order of the files.
inline std::uint64_t linked_place(std::size_t segment, RowLocation at) {
  return std::uint64_t{segment} << 32 | std::uint64_t{at.group} << 16 | at.position;
}

/// One of those files, as the manifest has it.
struct LinkedSegment {
  std::string path;
  std::uint64_t bytes = 0;
  std::uint32_t head = 0;  ///< CRC-32 of its first block
};

/// Rows of segments that a checkpoint has linked. Nothing is believed of files or places: heads are
/// those of the manifest, groups are checked by their own sums, which know segment and place, and a
/// place that is in no group is refused. Errors are DataError and name the file.
class HCTR_API LinkedSegments {
 public:
  /// Throws unless each file is regular, as long as was said, has its head, holds rows of
  /// `row_bytes` and ends with a whole group.
  LinkedSegments(std::size_t row_bytes, std::vector<LinkedSegment> segments);

  std::size_t row_bytes() const { return shape_.row_bytes(); }
  /// rows + i * row_bytes() := the row at places[i]. Any thread may call.
  void read(std::span<const std::uint64_t> places, std::byte* rows) const;

 private:
  struct Opened {
    std::uint32_t number = 0;  ///< as its groups call it
    std::size_t groups = 0;
  };
  Opened checked(const LinkedSegment& segment) const;
  void check_place(std::uint64_t place) const;

  const GroupShape shape_;
  const std::vector<LinkedSegment> segments_;
  std::vector<Opened> opened_;
  std::unique_ptr<IoThreads> threads_;
};

}  // namespace hugectr
