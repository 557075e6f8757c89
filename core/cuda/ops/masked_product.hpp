// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/loops/matrix.hpp"

namespace hugectr::cuda {

/// dx = 0 where x <= 0, else a w^T (also where x is NaN), and the column sums of dx, in one pass:
/// what a linear layer's backward needs when x is a relu's result. cuBLASLt 13.1 has this end
/// (DRELU_BGRAD), but runs it as kernels of its own: 553 us for 65536 x 1024 x 1024 in bfloat16 on
/// an H200, of which the product takes 184.
///
/// a: (rows, k), w: (n, k), x, dx: (rows, n), of one 16-bit dtype.
struct MaskedProduct {
  Matrix a, w, x, dx;
  float* sums = nullptr;   ///< (n), may be absent
  bool overwrite = false;  ///< sums are stored, not added to
};

/// Runs it on GPUs of compute capability 9.0. False where that can not be, or its tiles would
/// mostly lie beyond dx: nothing was launched then. Sums are float32 and rounded once; a run
/// repeats bit for bit. Floor: 2 rows n k flops; reads a and x, writes dx.
bool try_masked_product(const OpContext& context, const MaskedProduct& product);

}  // namespace hugectr::cuda
