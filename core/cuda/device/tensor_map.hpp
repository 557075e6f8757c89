// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>

#include <cstdint>

#include "core/cpp/ops/loops/matrix.hpp"

namespace hugectr::cuda {

/// Elements of 16 bits in the rows that the copy engine moves: 128 bytes, swizzled.
inline constexpr std::uint32_t kBoxColumns = 64;

/// Whether the copy engine of Hopper can read and write the matrix: 16 bits, rows that begin at 16
/// bytes.
bool maps_as_tensor(const Matrix& matrix);

/// What the copy engine needs to know of a matrix for which maps_as_tensor() holds: boxes of
/// `box_rows` rows and kBoxColumns columns, which lie in shared memory row after row (128 bytes
/// each), 16-byte pieces of row r exchanged by an exclusive or of their number with r % 8. Beyond
/// the edges boxes are read as zeros and not written. Throws DeviceError.
CUtensorMap tensor_map(const Matrix& matrix, std::uint32_t box_rows);

}  // namespace hugectr::cuda
