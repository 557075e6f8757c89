// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/base/scalar_type.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cuda/device/cublas_lt_api.hpp"

namespace hugectr::cuda {

/// What the elements of a matrix are: those of its dtype, or bytes (UInt8) that are fp8.
enum class LtNumbers { OfDtype, E4M3, E5M2 };

/// A matrix as it is stored: `rows` rows of `row_size` elements, `stride` elements apart.
struct LtMatrix {
  void* data = nullptr;
  TensorScalarType dtype = TensorScalarType::Float32;
  std::size_t rows = 0, row_size = 0, stride = 0;
  LtNumbers numbers = LtNumbers::OfDtype;
  const float* scale = nullptr;  ///< of an fp8 factor, on the device; its numbers times this
};

/// d = epilogue(alpha * op(a) op(b) + beta * c). c and d are of one shape and may be one matrix.
/// Factors of fp8 need a as it is, b transposed, rows at 16 bytes, and sizes that are multiples of
/// 16 but for a's rows.
struct LtMatmul {
  bool transpose_a = false, transpose_b = false;
  LtMatrix a, b, c, d;
  float alpha = 1.0f, beta = 0.0f;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;  ///< of d's dtype; what the epilogue's bias or bias gradient is
};

/// Launches the product on the context's stream. float32 factors are multiplied exactly unless
/// context.tf32. False when the library has no algorithm for it: nothing was launched then.
///
/// The library's first advice is remembered for every problem (device, shapes, strides, alignment
/// up to 16 bytes, epilogue), and algorithms that add with atomics are left out: a run repeats bit
/// for bit. With context.search_algorithms the first call outside a capture times up to eight of
/// them that give the same bits (algorithm_search.hpp), and the fastest is what is remembered.
bool try_matmul(const OpContext& context, const LtMatmul& matmul);

}  // namespace hugectr::cuda
