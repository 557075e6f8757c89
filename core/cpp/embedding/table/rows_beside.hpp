// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "core/cpp/embedding/table/cache_memory.hpp"
#include "core/cpp/embedding/table/row_copies.hpp"

namespace hugectr {

/// The rows of a plan that only reads them, copied beside the places: what is left where nothing
/// may leave those, since the disk below is full. The device reads the copies over the link.
class RowsBeside {
 public:
  /// The first `rows` of numbers.distinct; `lists` hold the plan. As RowCopies::read(); waits.
  RowsBeside(const OpContext& context, std::unique_ptr<RowCopies> copies, const RowsAtPlaces& there,
             const PlanRows& numbers, std::size_t rows, const PlanPlaces& lists);
  /// Waits until nothing reads them.
  ~RowsBeside();
  RowsBeside(const RowsBeside&) = delete;
  RowsBeside& operator=(const RowsBeside&) = delete;

  const StagedRows& staged() const { return staged_; }
  /// As RowStore::release().
  void release(const std::shared_ptr<Event>& released) { released_ = released; }

 private:
  std::unique_ptr<RowCopies> copies_;
  StagedRows staged_;
  std::shared_ptr<Event> released_;
};

}  // namespace hugectr
