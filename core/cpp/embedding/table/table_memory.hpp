// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <optional>
#include <string>

namespace hugectr {

/// A folder for rows on a disk.
struct TableDisk {
  std::string folder;
  std::size_t bytes = 0;  ///< of each device
};

/// Where a table may put its rows. Tiers say where rows lie, never which rows exist.
struct TableMemory {
  /// Bytes of places for rows (vector, states, what a place needs beside them) on each device; the
  /// index and the buffers of plans are outside. Nothing: all rows are in the memory of the
  /// devices. 0: all are in host memory, and the devices reach them there.
  std::optional<std::size_t> device;
  /// Bytes of rows in host memory for each device, whatever the process they are of. Nothing: no
  /// bound.
  std::optional<std::size_t> host;

  /// Below the host's memory, whose budget there must be then.
  std::optional<TableDisk> disk;

  bool tiered() const { return device.has_value(); }
};

}  // namespace hugectr
