// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstring>
#include <span>

namespace hugectr {

/// One part of rows in memory: that of place p is the `bytes` from data + p * bytes on.
struct RowColumn {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// All parts of the row at a place, one after the other, to `record`.
inline void gather_row(std::span<const RowColumn> columns, std::size_t place, std::byte* record) {
  for (const RowColumn& column : columns) {
    std::memcpy(record, column.data + place * column.bytes, column.bytes);
    record += column.bytes;
  }
}
inline void scatter_row(std::span<const RowColumn> columns, std::size_t place,
                        const std::byte* record) {
  for (const RowColumn& column : columns) {
    std::memcpy(column.data + place * column.bytes, record, column.bytes);
    record += column.bytes;
  }
}
inline void clear_row(std::span<const RowColumn> columns, std::size_t place) {
  for (const RowColumn& column : columns) {
    std::memset(column.data + place * column.bytes, 0, column.bytes);
  }
}

}  // namespace hugectr
