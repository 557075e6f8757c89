// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/ops/loops/row_panel.hpp"

namespace hugectr {

/// Panels of 16 and 32 columns in registers of 16 lanes, on x86-64: where the processor has AVX-512
/// only (row_product_512.cpp alone is compiled for it).
void add_panel_of_16(const RowPanel& panel, std::size_t rows, const float* a, std::size_t a_stride,
                     float* c, std::size_t c_stride);
void add_wide_panel_of_16(const RowPanel& panel, std::size_t rows, const float* a,
                          std::size_t a_stride, float* c, std::size_t c_stride);

}  // namespace hugectr
