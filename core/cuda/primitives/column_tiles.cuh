// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/rows.cuh"

/// Loops over batch-major (rows, columns) tensors in which a thread stays on its columns:
/// parameters of a column are read once, and sums down the columns stay in registers.
namespace hugectr::cuda {

/// True when every row of the matrix can be read in 16-byte pieces.
inline bool matrix_allows_16_bytes(const void* data, std::size_t stride, std::size_t rows,
                                   std::size_t columns) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && columns % 4 == 0 &&
         (stride % 4 == 0 || rows <= 1);
}

/// True when every row of the matrix can be read V elements at a time. No data does not matter.
template <int V, class T>
bool matrix_allows_packs(const T* data, std::size_t stride, std::size_t rows, std::size_t columns) {
  return data == nullptr ||
         (columns % V == 0 && packs_fit(data, rows <= 1 ? 0 : stride, static_cast<std::size_t>(V)));
}

inline constexpr unsigned kColumnThreads = 512;

/// threadIdx.x picks a group of columns, threadIdx.y strides over rows. Narrow matrices get few
/// threads a row, so that a warp reads neighbouring rows.
inline dim3 column_block(std::size_t groups, unsigned max_width = 32) {
  unsigned width = 1;
  while (width < max_width && width < groups) width *= 2;
  return dim3(width, kColumnThreads / width);
}

inline unsigned column_grid(std::size_t groups, unsigned max_width = 32) {
  const dim3 block = column_block(groups, max_width);
  return static_cast<unsigned>((groups + block.x - 1) / block.x);
}

template <class Body>
__global__ void __launch_bounds__(kColumnThreads)
    for_each_row_kernel(std::size_t rows, std::size_t groups, Body body) {
  const std::size_t group = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (group >= groups) return;
  const auto columns = body.columns(group);
  const std::size_t step = static_cast<std::size_t>(gridDim.y) * blockDim.y;
  std::size_t row = static_cast<std::size_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  for (; row < rows; row += step) body(row, group, columns);
}

/// body(row, group, body.columns(group)) for every row and column group.
template <class Body>
void for_each_row(const OpContext& context, const char* name, std::size_t rows, std::size_t groups,
                  const Body& body) {
  if (rows == 0 || groups == 0) return;
  const dim3 block = column_block(groups);
  const unsigned width = column_grid(groups);
  const std::size_t items = rows * width * block.x;
  const unsigned height = std::max(1u, grid_for(items, kColumnThreads) / width);
  launch(context, name, dim3(width, std::min(height, 65535u)), block, 0, &for_each_row_kernel<Body>,
         rows, groups, body);
}

/// Rows that a thread loads before it uses the first: Body::kInFlight, or four. Bodies that load
/// much of a row take fewer, so that two blocks have room on a multiprocessor.
template <class Body>
constexpr int rows_in_flight() {
  if constexpr (requires { Body::kInFlight; }) {
    return Body::kInFlight;
  } else {
    return 4;
  }
}

/// One piece of the rows, blockIdx.y, summed per column: threads sum every blockDim.y-th row, then
/// a tree over threadIdx.y adds them. The order depends on shape and kVec alone.
template <class Body>
__global__ void __launch_bounds__(kColumnThreads)
    sum_tiles_kernel(std::size_t rows, std::size_t piece, std::size_t groups, Body body) {
  using Sum = typename Body::Sum;
  constexpr int kSums = Body::kSums;
  constexpr int kInFlight = rows_in_flight<Body>();
  __shared__ Sum totals[kSums][kColumnThreads / 2];  // of the upper half, for the lower one

  const std::size_t group = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::size_t begin = blockIdx.y * piece;
  const std::size_t end = begin + piece < rows ? begin + piece : rows;
  const std::size_t step = blockDim.y;
  Sum sums[kSums] = {};
  if (group < groups) {
    const auto columns = body.columns(group);
    std::size_t row = begin + threadIdx.y;
    for (; row + (kInFlight - 1) * step < end; row += kInFlight * step) {
      typename Body::Row loaded[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) loaded[i] = body.load(row + i * step, group);
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        body.add(loaded[i], row + i * step, group, columns, sums);
      }
    }
    for (; row < end; row += step) body.add(body.load(row, group), row, group, columns, sums);
  }

  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    if (threadIdx.y >= half && threadIdx.y < 2 * half) {
#pragma unroll
      for (int s = 0; s < kSums; ++s) totals[s][thread - half * blockDim.x] = sums[s];
    }
    __syncthreads();
    if (threadIdx.y < half) {
#pragma unroll
      for (int s = 0; s < kSums; ++s) sums[s] += totals[s][thread];
    }
    __syncthreads();
  }
  if (threadIdx.y == 0 && group < groups) body.store(blockIdx.y, group, sums);
}

/// How sum_tiles() cuts a matrix.
struct TileCut {
  std::size_t piece = 0;    ///< rows of a piece; 0: those of partial_sums.hpp
  unsigned max_width = 32;  ///< threads that lie side by side at most
};

/// Sums down the columns by the pieces of partial_sums.hpp. Body has
///   Sum, kSums     type and number of a group's sums;   Row   what a thread loads of a row
///   columns(group) -> values a thread keeps;   load(row, group) -> Row
///   add(Row, row, group, columns, sums);       store(piece, group, sums)
///   kInFlight      rows loaded at once, where it is not four
/// add() may write to the row's own elements, those it was loaded from included.
template <class Body>
void sum_tiles(const OpContext& context, const char* name, std::size_t rows, std::size_t groups,
               const Body& body, TileCut cut = {}) {
  if (rows == 0 || groups == 0) return;
  const std::size_t piece = cut.piece > 0 ? cut.piece : samples_per_partial(rows);
  const dim3 grid(column_grid(groups, cut.max_width),
                  static_cast<unsigned>((rows + piece - 1) / piece));
  launch(context, name, grid, column_block(groups, cut.max_width), 0, &sum_tiles_kernel<Body>, rows,
         piece, groups, body);
}

/// A max_width with which the blocks of sum_tiles() fill a large device, and a row of a block still
/// reads whole cache lines.
inline unsigned filling_width(std::size_t rows, std::size_t groups) {
  constexpr std::size_t kWantedBlocks = 256;
  unsigned width = 32;
  while (width > 8 && column_grid(groups, width) * partial_rows(rows) < kWantedBlocks) width /= 2;
  return width;
}

inline constexpr unsigned kFinishThreads = 64;

template <class T, class Finish>
__global__ void __launch_bounds__(kFinishThreads)
    finish_tiles_kernel(const T* partial, std::size_t stride, std::size_t pieces,
                        std::size_t columns, Finish finish) {
  const std::size_t column = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  double sum = 0.0;
#pragma unroll 8
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    sum += static_cast<double>(partial[piece * stride + column]);
  }
  finish(column, sum);
}

/// finish(column, sum over the pieces in order, in double) for every column of the scratch tensor.
template <class T, class Finish>
void finish_tiles(const OpContext& context, const char* name, const TensorRef& partial,
                  const Finish& finish) {
  const std::size_t columns = partial.row_size();
  const auto grid = static_cast<unsigned>((columns + kFinishThreads - 1) / kFinishThreads);
  launch(context, name, dim3(grid), dim3(kFinishThreads), 0, &finish_tiles_kernel<T, Finish>,
         partial.ptr<T>(), partial.row_stride, partial.rows(), columns, finish);
}

/// target[column] += sum, or = sum: the end of a parameter gradient.
struct AddToGradient {
  float* target;
  bool overwrite = false;
  __device__ void operator()(std::size_t column, double sum) const {
    const double before = overwrite ? 0.0 : static_cast<double>(target[column]);
    target[column] = static_cast<float>(before + sum);
  }
};

}  // namespace hugectr::cuda
