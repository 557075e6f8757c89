// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/cpp/ops/move_rows.hpp"

/// Rows that move, cut into pieces of memory.
namespace hugectr {

/// Lists of all entries of some moves, one table after the other (list_moves.hpp).
struct RowLists {
  const std::uint32_t *leaves, *comes;  ///< on the host
  std::uint32_t *from, *to;             ///< on the device
};

/// Some entries, one after another, of the rows of one array, at an offset of a piece.
struct RowStretch {
  const TensorRef *cache, *home;
  const std::uint32_t *leaving, *coming;  ///< null: none of them
  std::size_t first, count;               ///< entries of the lists
  std::size_t offset, row_bytes;
};

struct RowPiece {
  static constexpr std::size_t kBytes = std::size_t{4} << 20;

  std::vector<RowStretch> stretches;
  bool leaves = false, comes = false;  ///< any row

  /// Up to the end of its last stretch.
  std::size_t used_bytes() const;
  static bool holds_rows_of(std::span<const MoveRows> moves);
};

std::size_t entries_of(std::span<const MoveRows> moves);
std::size_t bytes_of(std::span<const MoveRows> moves);
/// All rows of the moves, which have to live as long; holds_rows_of() them. Without pieces that
/// nothing leaves and nothing comes by.
std::vector<RowPiece> cut_into_pieces(std::span<const MoveRows> moves, const RowLists& lists);

}  // namespace hugectr
