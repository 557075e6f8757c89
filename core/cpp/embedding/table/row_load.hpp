// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "core/cpp/embedding/table/row_transfer.hpp"
#include "core/cpp/embedding/table/table.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// The rows of a load that one device takes. In three steps, so that a load into several devices
/// changes none of them when one has no room: insert() and prepare() on all, then write() on all,
/// or undo().
class RowLoad {
 public:
  explicit RowLoad(Table& table) : table_(table), before_(table.state()) {}

  /// Row `source` of what is loaded comes here. When all do, in order, take_all() says it shorter.
  void take(std::size_t source) { source_.push_back(source), ++size_; }
  void take_all(std::size_t size) { size_ = size; }

  /// Numbers for the keys and memory for their rows. Throws OutOfMemory.
  void insert(const RowView& rows);
  /// All else that can fail for want of memory.
  void prepare();
  void undo();
  /// Numbers of the rows are stamped with `stamp` unless it is 0; all become visible. Rows without
  /// scores count as used in `step`. Waits.
  void write(const RowView& rows, RowMark stamp, std::int64_t step);

 private:
  std::size_t place(std::size_t i) const { return source_.empty() ? i : source_[i]; }
  void write_parts(RowTransfer& transfer, const RowView& rows, const RowArrays& arrays) const;
  void write_in_pieces(const OpContext& context, const RowView& rows);

  void write_scores(const OpContext& context, const RowView& rows, std::int64_t step);

  Table& table_;
  const HashTable::State before_;
  std::size_t size_ = 0;
  std::vector<std::size_t> source_;  ///< places in what is loaded; empty: i is i
  std::shared_ptr<DeviceBuffer2> arena_;
  TensorBag2 keys_, slots_, rows_;
  std::vector<std::uint32_t> targets_;  ///< row on the device of each; kNoRow: a later one counts
  std::unique_ptr<RowTransfer> transfer_;
};

}  // namespace hugectr
