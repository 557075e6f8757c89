// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_pieces.hpp"

#include <algorithm>

#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kAligned = 256;  // stretches of a piece

std::size_t row_bytes_of(const TensorRef& rows) { return rows.row_size() * size_of(rows.dtype); }

const std::uint32_t* if_any(const std::uint32_t* rows, std::size_t count) {
  const auto is_row = [](std::uint32_t row) { return row != kNoRow; };
  return std::any_of(rows, rows + count, is_row) ? rows : nullptr;
}

}  // namespace

std::size_t entries_of(std::span<const MoveRows> moves) {
  std::size_t entries = 0;
  for (const MoveRows& op : moves) entries += static_cast<std::size_t>(op.count);
  return entries;
}

std::size_t bytes_of(std::span<const MoveRows> moves) {
  std::size_t bytes = 0;
  for (const MoveRows& op : moves) {
    for (const TensorRef& cache : op.cache) {
      bytes += static_cast<std::size_t>(op.count) * row_bytes_of(cache);
    }
  }
  return bytes;
}

std::size_t RowPiece::used_bytes() const {
  const RowStretch& last = stretches.back();
  return last.offset + last.count * last.row_bytes;
}

bool RowPiece::holds_rows_of(std::span<const MoveRows> moves) {
  return std::ranges::all_of(moves, [](const MoveRows& op) {
    return std::ranges::all_of(
        op.cache, [](const TensorRef& cache) { return row_bytes_of(cache) <= kBytes; });
  });
}

std::vector<RowPiece> cut_into_pieces(std::span<const MoveRows> moves, const RowLists& lists) {
  std::vector<RowPiece> pieces;
  std::size_t used = RowPiece::kBytes, first = 0;
  for (const MoveRows& op : moves) {
    const std::size_t end = first + static_cast<std::size_t>(op.count);
    for (std::size_t a = 0; a < op.cache.size(); ++a) {
      const std::size_t row_bytes = row_bytes_of(op.cache[a]);
      for (std::size_t begin = first; begin < end;) {
        const std::size_t fit = used < RowPiece::kBytes ? (RowPiece::kBytes - used) / row_bytes : 0;
        if (fit == 0) {
          pieces.emplace_back();
          used = 0;
          continue;
        }
        const std::size_t count = std::min(end - begin, fit);
        RowPiece& piece = pieces.back();
        const RowStretch& stretch =
            piece.stretches.emplace_back(RowStretch{.cache = &op.cache[a],
                                                    .home = &op.home[a],
                                                    .leaving = if_any(lists.leaves + begin, count),
                                                    .coming = if_any(lists.comes + begin, count),
                                                    .first = begin,
                                                    .count = count,
                                                    .offset = used,
                                                    .row_bytes = row_bytes});
        piece.leaves |= stretch.leaving != nullptr;
        piece.comes |= stretch.coming != nullptr;
        used += (count * row_bytes + kAligned - 1) / kAligned * kAligned;
        begin += count;
      }
    }
    first = end;
  }
  std::erase_if(pieces, [](const RowPiece& piece) { return !piece.leaves && !piece.comes; });
  return pieces;
}

}  // namespace hugectr
