// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/ops/gemm.hpp"

namespace hugectr::cuda {

/// What a product does to c before it leaves the chip: c = relu(product + addend + bias).
struct ProductEnd {
  const float* bias = nullptr;    ///< (n), added to every row
  bool relu = false;              ///< last
  const float* addend = nullptr;  ///< (m, n), added; needs beta 0; may not overlap c
  std::size_t addend_stride = 0;
};

/// Product of plain device memory on the context's stream; the float32 multiplications are exact
/// (no tf32). The library's choice of an algorithm is remembered for every problem (shapes,
/// strides, alignment up to 16 bytes, end), and algorithms that add with atomics are left out: a
/// run repeats bit for bit.
void gemm(const OpContext& context, const GemmArgs& args, const ProductEnd& end = {});

}  // namespace hugectr::cuda
