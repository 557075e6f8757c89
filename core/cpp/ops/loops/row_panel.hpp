// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

/// A panel of columns of a product (row_product.hpp), its sums in registers. A file a kind of
/// register includes this and is compiled for it: GCC takes vectors that the target of a function
/// does not have apart before it inlines the function into one whose target has them. So everything
/// here is a template over Lanes, each of which one file uses, and calls nothing else: no function
/// that the linker might share has instructions that a machine lacks.
namespace hugectr {

/// kVectors vectors of kBytes bytes side by side: a panel's width.
template <std::size_t kBytes, std::size_t kVectors>
struct PanelLanes {
  using Vector __attribute__((vector_size(kBytes))) = float;
  static constexpr std::size_t kCount = kBytes / sizeof(float);
  static constexpr std::size_t kPerPanel = kVectors;
  static constexpr std::size_t kWidth = kVectors * kCount;
  [[gnu::always_inline]] static void load(const float* p, Vector& v) {
    __builtin_memcpy(&v, p, kBytes);
  }
  [[gnu::always_inline]] static void store(float* p, const Vector& v) {
    __builtin_memcpy(p, &v, kBytes);
  }
};

/// `depth` summands of a panel of c.
struct RowPanel {
  const float* b;  ///< (depth, width)
  std::size_t b_stride;
  std::size_t depth;
  std::size_t columns;  ///< that c has, at most the width
  bool first;           ///< what c holds is overwritten
  std::size_t next;     ///< elements from a line of b to that of the panel which comes next
};

/// Adds `rows` rows of a b to c.
using AddPanel = void (*)(const RowPanel& panel, std::size_t rows, const float* a,
                          std::size_t a_stride, float* c, std::size_t c_stride);

// kRows rows at once stay in registers. kLast: of a panel's rows. Lines of b lie too far apart for
// the processor to see what comes next: while the last rows are at work the next panel is fetched
// into the second-level cache.
template <class L, std::size_t kRows, bool kLast>
[[gnu::always_inline]] inline void add_panel_rows(const RowPanel& panel, const float* a,
                                                  std::size_t a_stride, float* c,
                                                  std::size_t c_stride) {
  constexpr std::size_t kLine = 64 / sizeof(float);
  typename L::Vector sums[kRows][L::kPerPanel] = {};
  const float* rows[kRows];
#pragma GCC unroll 12
  for (std::size_t r = 0; r < kRows; ++r) rows[r] = a + r * a_stride;
  const float* b = panel.b;
  const std::size_t b_stride = panel.b_stride, depth = panel.depth, next = panel.next;
#pragma GCC unroll 4
  for (std::size_t p = 0; p < depth; ++p, b += b_stride) {
    if constexpr (kLast) {
#pragma GCC unroll 2
      for (std::size_t i = 0; i < L::kWidth; i += kLine) __builtin_prefetch(b + next + i, 0, 2);
    }
    typename L::Vector columns[L::kPerPanel];
#pragma GCC unroll 2
    for (std::size_t v = 0; v < L::kPerPanel; ++v) L::load(b + v * L::kCount, columns[v]);
#pragma GCC unroll 12
    for (std::size_t r = 0; r < kRows; ++r) {
      // A scalar operand is spread over all lanes by the instruction that loads it.
      const float x = rows[r][p];
#pragma GCC unroll 2
      for (std::size_t v = 0; v < L::kPerPanel; ++v) sums[r][v] += x * columns[v];
    }
  }
  if (panel.columns == L::kWidth) {
#pragma GCC unroll 12
    for (std::size_t r = 0; r < kRows; ++r, c += c_stride) {
#pragma GCC unroll 2
      for (std::size_t v = 0; v < L::kPerPanel; ++v) {
        float* out = c + v * L::kCount;
        typename L::Vector before{};
        if (!panel.first) L::load(out, before);
        L::store(out, before + sums[r][v]);
      }
    }
    return;
  }
  float found[kRows][L::kWidth];
#pragma GCC unroll 12
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < L::kPerPanel; ++v) {
      L::store(found[r] + v * L::kCount, sums[r][v]);
    }
  }
#pragma GCC unroll 1
  for (std::size_t r = 0; r < kRows; ++r, c += c_stride) {
#pragma GCC unroll 1
    for (std::size_t j = 0; j < panel.columns; ++j) {
      c[j] = panel.first ? found[r][j] : c[j] + found[r][j];
    }
  }
}

// Blocks of kMostRows rows. A block of less than two thirds of them would wait for its own sums:
// rather than leave so few for the last, the last two share.
template <class L, std::size_t kMostRows>
[[gnu::always_inline]] inline void add_panel(const RowPanel& panel, std::size_t rows,
                                             const float* a, std::size_t a_stride, float* c,
                                             std::size_t c_stride) {
  const auto step = [&]<std::size_t kRows, bool kLast>(std::integral_constant<std::size_t, kRows>,
                                                       std::bool_constant<kLast>) {
    add_panel_rows<L, kRows, kLast>(panel, a, a_stride, c, c_stride);
    a += kRows * a_stride;
    c += kRows * c_stride;
    rows -= kRows;
  };
  constexpr std::size_t kFewRows = kMostRows * 2 / 3;
  constexpr std::integral_constant<std::size_t, kMostRows> most;
  const auto step_of = [&](std::size_t count, auto last) {
    [&]<std::size_t... kRow>(std::index_sequence<kRow...>) {
      (void)((count == kRow + 1 &&
              (step(std::integral_constant<std::size_t, kRow + 1>{}, last), true)) ||
             ...);
    }(std::make_index_sequence<kMostRows>{});
  };
  while (rows >= kMostRows + kFewRows) step(most, std::false_type{});
  if (rows > kMostRows) step_of(rows - rows / 2, std::false_type{});
  step_of(rows, std::true_type{});
}

}  // namespace hugectr
