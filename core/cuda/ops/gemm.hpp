// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/ops/gemm.hpp"

namespace hugectr::cuda {

/// What a product does to c before it leaves the chip: c = relu(product + addend + bias). Bias and
/// addend are of c's dtype. Whether relu keeps NaN (as the op ReluFwd does) or gives 0 for it is
/// the library's choice.
struct ProductEnd {
  const void* bias = nullptr;    ///< (n), added to every row
  bool relu = false;             ///< last
  const void* addend = nullptr;  ///< (m, n), added; needs beta 0; may not overlap c
  std::size_t addend_stride = 0;
};

/// Product on the context's stream; sums are float32 and rounded once. float32 factors are exact
/// unless context.tf32. A run repeats bit for bit (see try_matmul()).
void gemm(const OpContext& context, const GemmArgs& args, const ProductEnd& end = {});

/// c = scale c + product + addend + bias, or its relu; scale 0 does not read c. `product` (float32)
/// may have more rows and columns than c, or be absent.
void end_product(const OpContext& context, const Matrix& c, float scale, const ProductEnd& end,
                 const Matrix& product = {});

}  // namespace hugectr::cuda
