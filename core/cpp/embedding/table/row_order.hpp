// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "core/cpp/embedding/table/row_bag.hpp"
#include "core/cpp/embedding/table/table.hpp"

namespace hugectr {

/// The local devices' parts of one table.
using TableParts = std::vector<std::unique_ptr<Table>>;

/// Visible rows of all parts by (slot, key); with `since` only those stamped with it or later.
RowOrder order_of(const TableParts& parts, ThreadPool& pool, RowMark since);
/// Values of rows [begin, end) of an order, through a bounded piece of host memory.
void read_rows(const TableParts& parts, const RowOrder& order, std::size_t begin, std::size_t end,
               const RowValues& values);

}  // namespace hugectr
