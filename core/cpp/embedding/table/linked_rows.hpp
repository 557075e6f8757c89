// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/embedding/storage/stored_rows.hpp"
#include "core/cpp/embedding/table/row_order.hpp"

namespace hugectr {

/// A sealed segment as a manifest has it.
struct SharedSegment {
  std::string path;
  std::uint64_t bytes = 0;
  std::uint32_t head = 0;           ///< CRC-32 of its first block
  std::vector<std::uint32_t> sums;  ///< CRC-32 of its chunks (ChunkSums)
};

/// Rows of one device that lie in sealed segments of its disk, for who links those: a checkpoint.
struct LinkedRows {
  RowOrder order;                     ///< of these rows alone, as they lie in the segments
  std::vector<std::uint64_t> places;  ///< of each (linked_place()), ascending
  std::vector<std::shared_ptr<SegmentHold>> segments;
  std::size_t row_bytes = 0;  ///< vector, states, last step, one after the other

  HCTR_API SharedSegment segment(std::size_t i) const;
  /// Waits until a segment would survive a loss of power. Throws NoRoom or DataError.
  HCTR_API void sync(std::size_t i) const;
  /// Reads a segment and throws DataError unless it is what was written (SegmentFile::verify()).
  HCTR_API void verify(std::size_t i, bool again) const;
};

/// An order in two: rows whose content a disk has, and all the others in the order that they had.
struct StoredSplit {
  RowOrder rest;
  std::vector<LinkedRows> linked;
};

/// Rows that were written since, or never, or in segments that are mostly dead, are of the rest.
StoredSplit split_stored(const TableParts& parts, RowOrder order);

}  // namespace hugectr
