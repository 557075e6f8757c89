// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/loops/row_product.hpp"

#include <algorithm>
#include <vector>

#include "core/cpp/ops/loops/row_panel.hpp"
#include "core/cpp/ops/loops/row_panel_512.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kBlockRows = 96;      // their part of a stays in the second-level cache
constexpr std::size_t kBlockColumns = 128;  // so does the packed part of b

// Of the machine the library is compiled for: 12 registers of 16 for sums of 8 lanes.
using EightLanes = PanelLanes<32, 2>;

void add_panel_of_8(const RowPanel& panel, std::size_t rows, const float* a, std::size_t a_stride,
                    float* c, std::size_t c_stride) {
  add_panel<EightLanes, 6>(panel, rows, a, a_stride, c, c_stride);
}

// How panels are made here: as wide as `width`, but narrow ones where that is enough. The same
// steps in the same order for every element, and so the same bits, whichever it is.
struct PanelKind {
  std::size_t width, narrow_width;
  AddPanel wide, narrow;

  std::size_t width_of(std::size_t columns) const {
    return columns <= narrow_width ? narrow_width : width;
  }
  AddPanel of(std::size_t panel_width) const { return panel_width == width ? wide : narrow; }
};

PanelKind panels_of_machine() {
#if defined(__x86_64__) && defined(__AVX2__)
  if (__builtin_cpu_supports("avx512f")) {
    return {2 * kPanelColumns, kPanelColumns, &add_wide_panel_of_16, &add_panel_of_16};
  }
#endif
  static_assert(EightLanes::kWidth == kPanelColumns);
  return {kPanelColumns, kPanelColumns, &add_panel_of_8, &add_panel_of_8};
}

const PanelKind kPanels = panels_of_machine();

// The panel of b's columns [0, columns) as (depth, width), zeros where b ends.
void pack_panel(const float* b, std::size_t b_stride, std::size_t depth, std::size_t columns,
                std::size_t width, float* out) {
  for (std::size_t p = 0; p < depth; ++p, b += b_stride, out += width) {
    if (columns == width) {
      std::copy_n(b, width, out);
    } else {
      for (std::size_t j = 0; j < width; ++j) out[j] = j < columns ? b[j] : 0.0f;
    }
  }
}

// The same where b's columns are the rows that are stored.
void pack_transposed_panel(const float* b, std::size_t b_stride, std::size_t depth,
                           std::size_t columns, std::size_t width, float* out) {
  for (std::size_t j = 0; j < width; ++j) {
    for (std::size_t p = 0; p < depth; ++p) {
      out[p * width + j] = j < columns ? b[j * b_stride + p] : 0.0f;
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
    for (std::size_t j = 0; j < n; j += kPanels.width) {
      const std::size_t width = kPanels.width_of(n - j), columns = std::min(width, n - j);
      float* panel = out + j * depth + p * width;
      if (g.transpose_b) {
        pack_transposed_panel(g.b + (column + j) * g.b_stride + from + p, g.b_stride, rows, columns,
                              width, panel);
      } else {
        pack_panel(g.b + (from + p) * g.b_stride + column + j, g.b_stride, rows, columns, width,
                   panel);
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
  for (std::size_t j = 0; j < g.n; j += kPanels.width) {
    const std::size_t width = kPanels.width_of(g.n - j), columns = std::min(width, g.n - j);
    for (std::size_t from = 0; from < g.k; from += kProductDepth) {
      const std::size_t depth = std::min(kProductDepth, g.k - from);
      const float* b = g.b + from * g.b_stride + j;
      RowPanel panel{b, g.b_stride, depth, columns, from == 0, width};
      if (columns < width) {
        pack_panel(b, g.b_stride, depth, columns, width, scratch);
        panel.b = scratch;
        panel.b_stride = width;
      }
      kPanels.of(width)(panel, g.m, g.a + from, g.a_stride, g.c + j, g.c_stride);
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
  const std::size_t panels = (std::min(kBlockColumns, g.n) + kPanels.width - 1) / kPanels.width;
  const std::size_t wanted = panels * kPanels.width * std::min(kProductDepth, g.k);
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
        for (std::size_t j = 0; j < n; j += kPanels.width) {
          const std::size_t width = kPanels.width_of(n - j);
          const RowPanel panel{packed + j * depth,     width,     depth,
                               std::min(width, n - j), from == 0, depth * width};
          kPanels.of(width)(panel, rows, g.a + row * g.a_stride + from, g.a_stride,
                            g.c + row * g.c_stride + column + j, g.c_stride);
        }
      }
    }
  }
}

}  // namespace hugectr
