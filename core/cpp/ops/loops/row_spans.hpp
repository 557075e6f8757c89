// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

/// How CPU loops over batch-major tensors are cut into pieces.
namespace hugectr {

/// Elements of one piece of a memory-bound loop: large enough to hide the hand-over to a thread,
/// small enough that a piece of every operand stays in the L2 cache.
inline constexpr std::size_t kSpanElements = 16384;

/// Rows of one piece when a row has that many elements.
inline std::size_t row_grain(std::size_t row_elements) {
  return std::max<std::size_t>(1, kSpanElements / std::max<std::size_t>(1, row_elements));
}

/// Runs an element-wise loop over `rows` x `row_size` elements: body(row, column, count) handles
/// `count` elements from `column` of `row` on. With `flat` (every operand is contiguous) the whole
/// tensor counts as row 0, so that narrow rows cost no loop of their own.
template <class Body>
void for_each_span(ThreadPool& pool, std::size_t rows, std::size_t row_size, bool flat,
                   const Body& body) {
  if (flat) {
    parallel_for(pool, rows * row_size, kSpanElements, [&](std::size_t begin, std::size_t end) {
      body(std::size_t{0}, begin, end - begin);
    });
    return;
  }
  parallel_for(pool, rows, row_grain(row_size), [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) body(row, std::size_t{0}, row_size);
  });
}

}  // namespace hugectr
