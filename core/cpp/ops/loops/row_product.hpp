// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

/// Products in which the bits of a row of the result depend on that row of the first factor alone:
/// not on where it lies, how many there are, or how they are cut. A BLAS rounds the rows at the end
/// of its register blocks differently, so that a prediction would depend on its neighbours.
///
///   c[i, j] = sum over blocks of kProductDepth neighbouring p of (sum over p of a[i, p] b[p, j])
///
/// both sums from low p to high p, each step one fused multiply-add where the machine has it.
namespace hugectr {

/// Columns that lie side by side in packed form; edges of pieces are best multiples of it.
inline constexpr std::size_t kPanelColumns = 16;
/// Summands added up before they go to c.
inline constexpr std::size_t kProductDepth = 512;

/// c := a b; (m, n), (m, k), (k, n) or, when transpose_b, (n, k); strides are elements between
/// rows. c overlaps nothing.
struct RowProduct {
  bool transpose_b;
  std::size_t m, n, k;
  const float* a;
  std::size_t a_stride;
  const float* b;
  std::size_t b_stride;
  float* c;
  std::size_t c_stride;
};

/// On the calling thread, which keeps up to 256 KiB for packed columns of b.
void row_product(const RowProduct& product);

}  // namespace hugectr
