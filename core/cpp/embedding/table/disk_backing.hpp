// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/table/row_backing.hpp"
#include "core/cpp/embedding/table/table_memory.hpp"

namespace hugectr {

/// Bytes that a place in host memory takes beside its row, when a disk lies below.
inline constexpr std::size_t kBytesBesideHostPlace = 20;

/// And what each row of the table takes there: where it lies on the disk, its place.
inline constexpr std::size_t kIndexBytesOnHost = 12;

/// Rows in files of a disk, with `places` in host memory as a cache over them (DiskRows). All that
/// can fail is done in ready(): when that throws (a full disk, too few places) no row has moved,
/// and training goes on once there is room. A device that fails in move() after all leaves rows of
/// which nobody knows where they are: every later call then throws the same error.
std::unique_ptr<RowBacking> make_disk_rows(GPUResource& gpu, const std::string& table,
                                           const std::string& owner, const TableDisk& disk,
                                           const RowParts& parts, std::size_t places,
                                           std::size_t max_rows);

/// Most rows that a disk of such a budget holds; 0: it is too small to be one.
std::size_t rows_of_disk(const TableDisk& disk, std::size_t row_bytes);
/// The smallest budget of a disk.
std::size_t least_disk(std::size_t row_bytes);

}  // namespace hugectr
