// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/ops/float8_product.hpp"

#include "core/cuda/device/cublas_lt_matmul.hpp"
#include "core/cuda/primitives/float_scratch.hpp"

namespace hugectr::cuda {
namespace {

LtMatrix of_8_bits(const Float8Matrix& m, std::size_t rows) {
  const LtNumbers numbers = m.kind == Float8::E4M3 ? LtNumbers::E4M3 : LtNumbers::E5M2;
  return {m.data, TensorScalarType::UInt8, rows, m.columns, m.columns, numbers, m.scale};
}

// False when the library has no such product; nothing was launched then.
bool try_float8(const OpContext& context, const Float8Matrix& a, const Float8Matrix& b,
                const Matrix& c, float beta, const ProductEnd& end) {
  const LtMatrix result{c.data, c.dtype, c.rows, c.columns, c.stride};
  LtMatmul matmul{.transpose_b = true,
                  .a = of_8_bits(a, c.rows),
                  .b = of_8_bits(b, c.columns),
                  .c = result,
                  .d = result,
                  .beta = beta};
  if (end.addend != nullptr) {
    matmul.c.data = const_cast<void*>(end.addend);
    matmul.c.stride = end.addend_stride;
    matmul.beta = 1.0f;
  }
  if (end.relu) matmul.epilogue = CUBLASLT_EPILOGUE_RELU;
  return try_matmul(context, matmul);
}

void float8_alone(const OpContext& context, const Float8Matrix& a, const Float8Matrix& b,
                  const Matrix& c, float beta) {
  if (try_float8(context, a, b, c, beta, {})) return;
  throw DeviceError(concat("fp8: cuBLASLt has no algorithm for m ", c.rows, ", n ", c.columns,
                           ", k ", a.columns, " into ", to_string(c.dtype),
                           ": it needs compute capability 8.9 or newer; "
                           "mixed_precision_type=\"bfloat16\" runs everywhere"));
}

bool begins_at_16_bytes(const void* data, std::size_t stride, TensorScalarType dtype) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride * size_of(dtype) % 16 == 0;
}

}  // namespace

void float8_product(const OpContext& context, const Float8Matrix& a, const Float8Matrix& b,
                    const Matrix& c, float beta, const ProductEnd& end) {
  HCTR_CHECK(a.columns == b.columns && a.rows >= c.rows && b.rows >= c.columns, "fp8: a (", a.rows,
             ", ", a.columns, ") and b (", b.rows, ", ", b.columns, ") do not make c (", c.rows,
             ", ", c.columns, ")");
  HCTR_CHECK(end.addend == nullptr || beta == 0.0f, "fp8: an addend needs beta 0");
  if (c.rows == 0 || c.columns == 0) return;
  if (a.columns == 0) return end_product(context, c, beta, end);
  Matrix wide = c;
  wide.columns = round_up(c.columns, 16);
  wide.spare = 0;
  if (c.columns + c.spare < wide.columns || !begins_at_16_bytes(c.data, c.stride, c.dtype)) {
    FloatScratch scratch(context, {wide.rows * wide.columns});
    wide.data = scratch.take(wide.rows * wide.columns);
    wide.dtype = TensorScalarType::Float32;
    wide.stride = wide.columns;
    float8_alone(context, a, b, wide, 0.0f);
    return end_product(context, c, beta, end, wide);
  }
  const bool addend_fits =
      end.addend == nullptr || begins_at_16_bytes(end.addend, end.addend_stride, c.dtype);
  // The library adds no float32 bias to a product of fp8.
  if (wide.columns == c.columns && addend_fits && end.bias == nullptr &&
      try_float8(context, a, b, c, beta, end)) {
    return;
  }
  float8_alone(context, a, b, wide, beta);
  end_product(context, c, 1.0f, end);
}

}  // namespace hugectr::cuda
