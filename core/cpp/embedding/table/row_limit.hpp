// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>

#include "core/cpp/embedding/table/row_arrays.hpp"
#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr {

/// Rows a device may hold.
struct RowBudget {
  std::size_t rows = 0;  ///< 0: as many as memory takes
  std::string way_out;   ///< what a message says behind the number of rows
};

/// What a table without a budget sets addresses apart for: the rows that all of the device's memory
/// could hold, unless they are more than the table's share of the addresses that a process has.
/// `sharers`: tables of the process, those of each device counted.
RowBudget rows_without_budget(const MemoryResource& memory, const RowParts& parts,
                              std::size_t sharers);

}  // namespace hugectr
