// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/device/op.hpp"

/// Copies and sums of ranges of columns: what Concat, Slice and SelectSlots (forward and backward)
/// are made of. T is float, Float16 or BFloat16.
namespace hugectr::cuda {

/// One range of columns of the target; strides in elements. In every row, `outer` segments of
/// `count` neighbouring elements:
///   to[row, segment, j] = (accumulate ? to[row, segment, j] : 0) + sum of the sources there
template <class T>
struct ColumnPartOf {
  static constexpr int kSources = 4;
  struct Source {
    const T* from = nullptr;
    std::size_t row = 0, segment = 0;
  };
  T* to = nullptr;
  std::size_t to_row = 0, to_segment = 0;
  std::size_t outer = 1, count = 0;
  Source sources[kSources];
  int source_count = 0;  ///< 0: zeros
  bool accumulate = false;
};
using ColumnPart = ColumnPartOf<float>;

/// Appends a part, or makes the last one longer when `part` continues it everywhere.
template <class T>
void append_part(std::vector<ColumnPartOf<T>>& parts, const ColumnPartOf<T>& part);

/// Runs all parts for `rows` rows. No target overlaps another target or a source. Parts run side
/// by side, a few dozen a launch. A part with one source is copied bit for bit; sums are taken in
/// the order of the sources, in float32, and rounded once.
template <class T>
void run_column_parts(const OpContext& context, const char* name, std::size_t rows,
                      const std::vector<ColumnPartOf<T>>& parts);

/// Columns first .. first + count of a target that `from` is added to.
template <class T>
struct ColumnRange {
  const T* from = nullptr;
  std::size_t row = 0;  ///< row stride of from
  std::size_t first = 0, count = 0;
};

/// to[row, j] = sum of the ranges that cover column j, in their order; 0 where none does. In 16
/// bits the sum is rounded after every ColumnPartOf<T>::kSources ranges that cover one column.
template <class T>
void sum_column_ranges(const OpContext& context, const char* name, std::size_t rows,
                       std::size_t columns, T* to, std::size_t to_row,
                       const std::vector<ColumnRange<T>>& ranges);

}  // namespace hugectr::cuda
