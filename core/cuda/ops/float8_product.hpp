// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cuda/ops/float8_factor.hpp"
#include "core/cuda/ops/gemm.hpp"

namespace hugectr::cuda {

/// c = a b^T + beta c and the end of ProductEnd. a has at least as many rows as c, b as c has
/// columns; those beyond are left out. Sums are float32 (no fast accumulation) and rounded once.
/// Where c's rows have no room for multiples of 16 columns the product goes through scratch.
/// Throws DeviceError on GPUs without fp8 products (compute capability below 8.9).
void float8_product(const OpContext& context, const Float8Matrix& a, const Float8Matrix& b,
                    const Matrix& c, float beta = 0.0f, const ProductEnd& end = {});

}  // namespace hugectr::cuda
