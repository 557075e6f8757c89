// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/cublas_lt.hpp"
#include "core/cuda/ops/aligned_product.hpp"
#include "core/cuda/primitives/float_scratch.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {
namespace {

// What a matrix must become; the same as it is when nothing is to be done.
struct Extent {
  std::size_t rows, columns;
};

bool rows_begin_at_16_bytes(const Matrix& m, std::size_t lanes) {
  return reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0 &&
         (m.stride % lanes == 0 || m.rows <= 1);
}

bool fits(const Matrix& m, const Extent& wanted, std::size_t lanes) {
  return m.rows == wanted.rows && m.columns + m.spare >= wanted.columns &&
         rows_begin_at_16_bytes(m, lanes);
}

Matrix widened(const Matrix& m, const Extent& wanted) {
  Matrix result = m;
  result.columns = wanted.columns;
  return result;
}

std::size_t bytes_of(const Extent& e, TensorScalarType dtype) {
  return round_up(e.rows * e.columns * size_of(dtype), 256);
}

// One thread writes 16 bytes. Floor: reads and writes every element once.
template <class T>
__global__ void __launch_bounds__(kThreads)
    pad_kernel(Rows<const T> from, std::size_t rows, std::size_t columns, bool packs, T* to,
               ElementUnits units) {
  constexpr int kVec = 16 / sizeof(T);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < units.count; u += step) {
    std::size_t column;
    const std::size_t row = units.per_row.divide(u, column);
    column *= kVec;
    Pack<T, kVec> values{};
    if (row < rows && packs && column + kVec <= columns) {
      values = load_pack<kVec>(from.at(row, column));
    } else if (row < rows) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        if (column + i < columns) values.v[i] = *from.at(row, column + i);
      }
    }
    store_pack<kVec>(to + u * kVec, values);
  }
}

Matrix padded_copy(const OpContext& context, const Matrix& m, const Extent& wanted, char*& memory) {
  Matrix copy;
  copy.data = memory;
  copy.dtype = m.dtype;
  copy.rows = wanted.rows;
  copy.columns = copy.stride = wanted.columns;
  memory += bytes_of(wanted, m.dtype);
  with_real_type(m.dtype, [&]<class T>(T) {
    constexpr std::size_t kVec = 16 / sizeof(T);
    const ElementUnits units(wanted.rows, wanted.columns, kVec);
    launch(context, "gemm operand", dim3(grid_for(units.count, kThreads)), dim3(kThreads), 0,
           &pad_kernel<T>, Rows<const T>{m.ptr<T>(), m.stride}, m.rows, m.columns,
           rows_begin_at_16_bytes(m, kVec), static_cast<T*>(copy.data), units);
  });
  return copy;
}

}  // namespace

AlignedProduct align_product(const OpContext& context, const GemmArgs& g) {
  const bool exact = g.a.dtype == TensorScalarType::Float32;
  if (exact && !context.tf32) return {g};
  const std::size_t lanes = 16 / size_of(g.a.dtype);
  // A dimension is rounded up where it lies along the rows of a matrix.
  const std::size_t m = g.transpose_a ? round_up(g.m(), lanes) : g.m();
  const std::size_t n = round_up(g.n(), lanes);
  const std::size_t k = !g.transpose_a || g.transpose_b ? round_up(g.k(), lanes) : g.k();
  const Extent a = g.transpose_a ? Extent{k, m} : Extent{m, k};
  const Extent b = g.transpose_b ? Extent{n, k} : Extent{k, n};
  const Extent c{m, n};
  const std::size_t c_lanes = 16 / size_of(g.c.dtype);

  const bool copy_a = !fits(g.a, a, lanes), copy_b = !fits(g.b, b, lanes);
  const bool copy_c = !fits(g.c, c, c_lanes);
  AlignedProduct result{g, copy_c};
  result.args.a = widened(g.a, a);
  result.args.b = widened(g.b, b);
  result.args.c = widened(g.c, c);
  std::size_t bytes = 0;
  if (copy_a) bytes += bytes_of(a, g.a.dtype);
  if (copy_b) bytes += bytes_of(b, g.b.dtype);
  if (copy_c) bytes += bytes_of(c, TensorScalarType::Float32);
  if (bytes == 0) return result;

  auto* memory =
      static_cast<char*>(cublas_lt(context).operand_memory(bytes, native_stream(context)));
  if (copy_a) result.args.a = padded_copy(context, g.a, a, memory);
  if (copy_b) result.args.b = padded_copy(context, g.b, b, memory);
  if (copy_c) {
    Matrix& scratch = result.args.c;
    scratch.data = memory;
    scratch.dtype = TensorScalarType::Float32;
    scratch.rows = c.rows;
    scratch.columns = scratch.stride = c.columns;
    result.args.beta = 0.0f;
  }
  return result;
}

}  // namespace hugectr::cuda
