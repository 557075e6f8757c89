// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/loops/row_product.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

namespace hugectr {
namespace {

constexpr std::size_t kBlockRows = 96;      // their part of a stays in the second-level cache
constexpr std::size_t kBlockColumns = 128;  // so does the packed part of b

template <std::size_t kBytes>
struct Lanes {
  using Vector __attribute__((vector_size(kBytes))) = float;
  static constexpr std::size_t kCount = kBytes / sizeof(float);
  static constexpr std::size_t kPerPanel = kPanelColumns / kCount;
  [[gnu::always_inline]] static void load(const float* p, Vector& v) {
    __builtin_memcpy(&v, p, kBytes);
  }
  [[gnu::always_inline]] static void store(float* p, const Vector& v) {
    __builtin_memcpy(p, &v, kBytes);
  }
};

// One panel of columns of c, `depth` summands of it: kRows rows at once stay in registers.
struct Panel {
  const float* b;  // (depth, kPanelColumns)
  std::size_t b_stride;
  std::size_t depth;
  std::size_t columns;  // that c has, at most kPanelColumns
  bool first;           // what c holds is overwritten
  std::size_t next;     // elements from a line of b to that of the panel which comes next
};

// kLast: of a panel's rows. Lines of b lie too far apart for the processor to see what comes next:
// while the last rows are at work the next panel is fetched into the second-level cache.
template <class L, std::size_t kRows, bool kLast>
[[gnu::always_inline]] inline void add_rows(const Panel& panel, const float* a,
                                            std::size_t a_stride, float* c, std::size_t c_stride) {
  typename L::Vector sums[kRows][L::kPerPanel] = {};
  const float* rows[kRows];
  for (std::size_t r = 0; r < kRows; ++r) rows[r] = a + r * a_stride;
  const float* b = panel.b;
  const std::size_t b_stride = panel.b_stride, depth = panel.depth, next = panel.next;
#pragma GCC unroll 4
  for (std::size_t p = 0; p < depth; ++p, b += b_stride) {
    if constexpr (kLast) __builtin_prefetch(b + next, 0, 2);
    typename L::Vector columns[L::kPerPanel];
    for (std::size_t v = 0; v < L::kPerPanel; ++v) L::load(b + v * L::kCount, columns[v]);
#pragma GCC unroll 12
    for (std::size_t r = 0; r < kRows; ++r) {
      // A scalar operand is spread over all lanes by the instruction that loads it.
      const float x = rows[r][p];
#pragma GCC unroll 2
      for (std::size_t v = 0; v < L::kPerPanel; ++v) sums[r][v] += x * columns[v];
    }
  }
  for (std::size_t r = 0; r < kRows; ++r, c += c_stride) {
    if (panel.columns == kPanelColumns) {
      for (std::size_t v = 0; v < L::kPerPanel; ++v) {
        float* out = c + v * L::kCount;
        typename L::Vector before{};
        if (!panel.first) L::load(out, before);
        L::store(out, before + sums[r][v]);
      }
    } else {
      float row[kPanelColumns];
      for (std::size_t v = 0; v < L::kPerPanel; ++v) L::store(row + v * L::kCount, sums[r][v]);
      for (std::size_t j = 0; j < panel.columns; ++j) c[j] = panel.first ? row[j] : c[j] + row[j];
    }
  }
}

// Blocks of kMostRows rows. A block of less than two thirds of them would wait for its own sums:
// rather than leave so few for the last, the last two share.
template <class L, std::size_t kMostRows>
[[gnu::always_inline]] inline void add_block(const Panel& panel, std::size_t rows, const float* a,
                                             std::size_t a_stride, float* c, std::size_t c_stride) {
  const auto step = [&]<std::size_t kRows, bool kLast>(std::integral_constant<std::size_t, kRows>,
                                                       std::bool_constant<kLast>) {
    add_rows<L, kRows, kLast>(panel, a, a_stride, c, c_stride);
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

// Of the machine the library is compiled for: 12 registers of 16 for sums of 8 lanes.
void add_block_of_8(const Panel& panel, std::size_t rows, const float* a, std::size_t a_stride,
                    float* c, std::size_t c_stride) {
  add_block<Lanes<32>, 6>(panel, rows, a, a_stride, c, c_stride);
}

#if defined(__x86_64__) && defined(__AVX2__)
// Of one that has 32 registers of 16 lanes. The same steps in the same order: the same bits.
__attribute__((target("avx512f"))) void add_block_of_16(const Panel& panel, std::size_t rows,
                                                        const float* a, std::size_t a_stride,
                                                        float* c, std::size_t c_stride) {
  add_block<Lanes<64>, 12>(panel, rows, a, a_stride, c, c_stride);
}
const auto add_block_here = __builtin_cpu_supports("avx512f") ? &add_block_of_16 : &add_block_of_8;
#else
constexpr auto add_block_here = &add_block_of_8;
#endif

// The panel of b's columns [0, columns) as (depth, kPanelColumns), zeros where b ends.
void pack_panel(const float* b, std::size_t b_stride, std::size_t depth, std::size_t columns,
                float* out) {
  for (std::size_t p = 0; p < depth; ++p, b += b_stride, out += kPanelColumns) {
    if (columns == kPanelColumns) {
      __builtin_memcpy(out, b, kPanelColumns * sizeof(float));
    } else {
      for (std::size_t j = 0; j < kPanelColumns; ++j) out[j] = j < columns ? b[j] : 0.0f;
    }
  }
}

// The same where b's columns are the rows that are stored.
void pack_transposed_panel(const float* b, std::size_t b_stride, std::size_t depth,
                           std::size_t columns, float* out) {
  for (std::size_t j = 0; j < kPanelColumns; ++j) {
    for (std::size_t p = 0; p < depth; ++p) {
      out[p * kPanelColumns + j] = j < columns ? b[j * b_stride + p] : 0.0f;
    }
  }
}

// Columns [column, column + n) and rows [from, from + depth) of b, panel after panel. Some rows of
// all panels at a time: b's lines are read in a line.
void pack_panels(const RowProduct& g, std::size_t from, std::size_t depth, std::size_t column,
                 std::size_t n, float* out) {
  constexpr std::size_t kRowsAtOnce = 8;
  for (std::size_t p = 0; p < depth; p += kRowsAtOnce) {
    const std::size_t rows = std::min(kRowsAtOnce, depth - p);
    for (std::size_t j = 0; j < n; j += kPanelColumns) {
      const std::size_t columns = std::min(kPanelColumns, n - j);
      float* panel = out + j * depth + p * kPanelColumns;
      if (g.transpose_b) {
        pack_transposed_panel(g.b + (column + j) * g.b_stride + from + p, g.b_stride, rows, columns,
                              panel);
      } else {
        pack_panel(g.b + (from + p) * g.b_stride + column + j, g.b_stride, rows, columns, panel);
      }
    }
  }
}

// Whether packing b would cost more than it gives: it is read few times, and what is read of a
// comes from the second-level cache. Lines of a panel that lie halves of a page apart push one
// another out of the first.
bool reads_unpacked(const RowProduct& g) {
  if (g.transpose_b) return false;
  return g.m <= (g.b_stride % 512 == 0 ? 24 : 128);
}

// Whole panels as they are.
void unpacked_product(const RowProduct& g, float* scratch) {
  for (std::size_t j = 0; j < g.n; j += kPanelColumns) {
    const std::size_t columns = std::min(kPanelColumns, g.n - j);
    for (std::size_t from = 0; from < g.k; from += kProductDepth) {
      const std::size_t depth = std::min(kProductDepth, g.k - from);
      const float* b = g.b + from * g.b_stride + j;
      Panel panel{b, g.b_stride, depth, columns, from == 0, kPanelColumns};
      if (columns < kPanelColumns) {
        pack_panel(b, g.b_stride, depth, columns, scratch);
        panel.b = scratch;
        panel.b_stride = kPanelColumns;
      }
      add_block_here(panel, g.m, g.a + from, g.a_stride, g.c + j, g.c_stride);
    }
  }
}

}  // namespace

void row_product(const RowProduct& g) {
  if (g.k == 0) {
    for (std::size_t row = 0; row < g.m; ++row) std::fill_n(g.c + row * g.c_stride, g.n, 0.0f);
    return;
  }
  thread_local std::vector<float> scratch;
  const std::size_t panels = (std::min(kBlockColumns, g.n) + kPanelColumns - 1) / kPanelColumns;
  const std::size_t wanted = panels * kPanelColumns * std::min(kProductDepth, g.k);
  if (scratch.size() < wanted) scratch.resize(wanted);
  float* const packed = scratch.data();
  if (reads_unpacked(g)) return unpacked_product(g, packed);
  for (std::size_t column = 0; column < g.n; column += kBlockColumns) {
    const std::size_t n = std::min(kBlockColumns, g.n - column);
    for (std::size_t from = 0; from < g.k; from += kProductDepth) {
      const std::size_t depth = std::min(kProductDepth, g.k - from);
      pack_panels(g, from, depth, column, n, packed);
      for (std::size_t row = 0; row < g.m; row += kBlockRows) {
        const std::size_t rows = std::min(kBlockRows, g.m - row);
        for (std::size_t j = 0; j < n; j += kPanelColumns) {
          const Panel panel{
              packed + j * depth, kPanelColumns,        depth, std::min(kPanelColumns, n - j),
              from == 0,          depth * kPanelColumns};
          add_block_here(panel, rows, g.a + row * g.a_stride + from, g.a_stride,
                         g.c + row * g.c_stride + column + j, g.c_stride);
        }
      }
    }
  }
}

}  // namespace hugectr
