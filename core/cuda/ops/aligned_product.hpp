// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/ops/gemm.hpp"

namespace hugectr::cuda {

/// A product as tensor cores want it: matrices begin at 16 bytes, and so does each of their rows,
/// and widths are multiples of 16 bytes. (Seen on an H200 with 65536 rows in bfloat16: 429 -> 1024
/// takes 515 us, 432 -> 1024 takes 101 us.)
struct AlignedProduct {
  GemmArgs args;
  /// The result is scratch (float32, beta 0) that holds more columns or rows than it should: its
  /// first ones are to be added to beta times the true c.
  bool result_elsewhere = false;
};

/// Copies what is not aligned into memory of the stream, padded with zeros; a matrix whose `spare`
/// suffices is widened in place. The true product's factors are copied, its c is not touched.
/// float32 without tf32 is handed back as it is: tensor cores have no part in it.
AlignedProduct align_product(const OpContext& context, const GemmArgs& args);

}  // namespace hugectr::cuda
