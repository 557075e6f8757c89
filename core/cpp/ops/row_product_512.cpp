// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/loops/row_panel_512.hpp"

// 12 rows by two registers are 24 of 32: a load of b for six multiply-adds, where the machine of
// fewer registers has one for six of half the size.
#if defined(__AVX512F__)
namespace hugectr {

void add_panel_of_16(const RowPanel& panel, std::size_t rows, const float* a, std::size_t a_stride,
                     float* c, std::size_t c_stride) {
  add_panel<PanelLanes<64, 1>, 12>(panel, rows, a, a_stride, c, c_stride);
}

void add_wide_panel_of_16(const RowPanel& panel, std::size_t rows, const float* a,
                          std::size_t a_stride, float* c, std::size_t c_stride) {
  add_panel<PanelLanes<64, 2>, 12>(panel, rows, a, a_stride, c, c_stride);
}

}  // namespace hugectr
#endif
