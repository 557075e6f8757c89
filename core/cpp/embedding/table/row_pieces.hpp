// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/ops/move_rows.hpp"

/// Rows that move, cut into pieces of memory.
namespace hugectr {

/// Of all entries of some moves, one table after the other: numbers of rows, and the places that
/// they leave (any place of the table's that a row leaves where this one is left by none) and come
/// to (kNoRow: none comes).
struct RowLists {
  TensorBag2 leaving, coming, from, to;  ///< uint32

  /// From leaving, coming (of moves that have such lists) and to, the places of all.
  void complete(std::span<const MoveRows> moves);
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
