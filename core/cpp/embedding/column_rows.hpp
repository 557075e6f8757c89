// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/embedding/table/row_order.hpp"

/// Whole rows in and out of devices that have some of their columns each (TableSpec::first_column).
/// Every such device has all rows, each under a number of its own.
namespace hugectr {

/// read_rows() of an order of `first`, whose rows the tables of `others` have too, but for those
/// that are empty.
void read_columns(const Table& first, const TableParts& others, const RowOrder& order,
                  std::size_t begin, std::size_t end, const RowValues& values);

/// The columns of these rows (numbers on the device) into those of vectors (n, all columns):
/// row i goes to places[i].
void look_up_columns(const Table& table, const std::vector<std::uint32_t>& rows,
                     const std::vector<std::size_t>& places, float* vectors);

/// Rows to load as a device takes them: copies of its columns of vectors and states.
class ColumnsOfRows {
 public:
  ColumnsOfRows(const RowView& rows, const TableSpec& spec);
  const RowView& view() const { return view_; }

 private:
  std::vector<std::vector<float>> copies_;
  RowView view_;
};

}  // namespace hugectr
