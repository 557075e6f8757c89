// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/embedding/table/row_store.hpp"

namespace hugectr {

/// Rows begin .. end - 1 of a visit in pieces: numbers[begin + i] lies at place rows[i] of arrays.
struct VisitedPiece {
  const RowArrays& arrays;
  const std::vector<std::uint32_t>& rows;
  std::size_t begin, end;
  bool all;  ///< of what is visited

  /// The piece of what goes with the rows; as RowTransfer takes it, empty: i is i.
  std::vector<std::size_t> of(const std::vector<std::size_t>& targets) const {
    if (all) return targets;
    std::vector<std::size_t> made(end - begin);
    for (std::size_t i = begin; i < end; ++i) made[i - begin] = targets.empty() ? i : targets[i];
    return made;
  }
};

/// Visits any number of rows, as many at a time as the store can show. f(VisitedPiece).
template <class F>
void visit_in_pieces(RowStore& store, const OpContext& context, std::size_t rows,
                     const std::vector<std::uint32_t>& numbers, RowUse use, const F& f) {
  const std::size_t n = numbers.size(), most = store.most_visited();
  for (std::size_t begin = 0; begin < n || begin == 0; begin += most) {
    const std::size_t end = n - begin > most ? begin + most : n;
    const bool all = end - begin == n;
    std::vector<std::uint32_t> piece;
    if (!all) piece.assign(numbers.begin() + begin, numbers.begin() + end);
    const std::vector<std::uint32_t>& asked = all ? numbers : piece;
    store.visit(context, rows, asked, use, [&](const VisitedRows& visited) {
      f(VisitedPiece{visited.arrays, visited.places ? *visited.places : asked, begin, end, all});
    });
    if (end == n) return;
  }
}

}  // namespace hugectr
