// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/cpp/embedding/storage/aligned_buffer.hpp"
#include "core/cpp/embedding/storage/segment_ledger.hpp"

namespace hugectr {

/// Copies the i-th row of a call to there.
using RowSource = std::function<void(std::size_t i, std::byte* row)>;

/// The segment that one writer appends to, and the next when it is full.
class AppendHead {
 public:
  AppendHead(const SegmentKind& kind, std::string folder, std::uint64_t owner,
             SegmentLedger& ledger, bool for_sweeping);

  /// Writes the first of these rows in one call of the system, about a mebibyte, and says where
  /// they lie now. Returns how many; the ledger is told by the caller. Throws NoRoom or DataError:
  /// then none of them was written.
  std::size_t append(std::span<const std::uint32_t> rows, const RowSource& source,
                     std::span<RowLocation> at);
  /// Groups written to the segment of the last append().
  std::size_t groups() const { return used_; }
  /// By all of them. Any thread may ask.
  std::uint64_t written_groups() const { return written_; }

  /// Makes a segment if there is none. Throws NoRoom.
  void prepare();
  /// No more goes into the segment that is there, if one is.
  void seal();

 private:
  const SegmentKind kind_;
  const std::string folder_;
  const std::uint64_t owner_;
  SegmentLedger& ledger_;
  const bool for_sweeping_;
  std::shared_ptr<SegmentFile> file_;
  std::size_t used_ = 0;
  std::atomic<std::uint64_t> written_ = 0;
  AlignedBuffer buffer_;
};

}  // namespace hugectr
