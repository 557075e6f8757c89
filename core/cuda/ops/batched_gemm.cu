// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/ops/batched_gemm.hpp"
#include "core/cpp/ops/loops/matrix_batch.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

using cuda::FastDivide;

constexpr unsigned kTile = 32;    // rows and columns of c that a block makes
constexpr unsigned kRowStep = 8;  // rows of a tile that its threads take at a time

/// MatrixBatch as kernels see it.
template <class T>
struct Matrices {
  explicit Matrices(const MatrixBatch& batch, bool transpose = false)
      : data(batch.tensor.ptr<T>()),
        rows(static_cast<unsigned>(batch.rows)),
        columns(static_cast<unsigned>(batch.columns)),
        stride(batch.stride),
        sample_stride(batch.tensor.row_stride),
        per_sample(batch.per_sample),
        one(batch.count == 1),
        transposed(transpose) {}
  T* data;
  unsigned rows, columns;
  std::size_t stride, sample_stride;
  FastDivide per_sample;
  bool one, transposed;

  __device__ T* at(std::size_t i) const {
    if (one) return data;
    std::size_t in_sample;
    const std::size_t sample = per_sample.divide(i, in_sample);
    return data + sample * sample_stride + in_sample * rows * columns;
  }
};

// tile[r][s] = op(matrix)(row + r, column + s), 0 beyond the end. Neighbouring threads read
// neighbouring elements whether the matrix is transposed or not.
template <class T>
__device__ void load_tile(float (&tile)[kTile][kTile + 1], const Matrices<T>& matrices,
                          const T* matrix, unsigned row, unsigned column) {
  const unsigned first_row = matrices.transposed ? column : row;
  const unsigned at = (matrices.transposed ? row : column) + threadIdx.x;
  for (unsigned r = threadIdx.y; r < kTile; r += kRowStep) {
    const bool there = first_row + r < matrices.rows && at < matrices.columns;
    const float value = there ? cuda::widen(matrix[(first_row + r) * matrices.stride + at]) : 0.0f;
    (matrices.transposed ? tile[threadIdx.x][r] : tile[r][threadIdx.x]) = value;
  }
}

// A block makes one tile of one c.
template <class T>
__global__ void multiply_tiles(FastDivide tiles, FastDivide column_tiles, std::size_t summed,
                               unsigned depth, Matrices<T> a, Matrices<T> b, Matrices<T> c) {
  __shared__ float left[kTile][kTile + 1], right[kTile][kTile + 1];
  std::size_t tile, tile_column;
  const std::size_t i = tiles.divide(blockIdx.x, tile);
  const auto row = static_cast<unsigned>(column_tiles.divide(tile, tile_column)) * kTile;
  const auto column = static_cast<unsigned>(tile_column) * kTile;
  float sums[kTile / kRowStep] = {};
  for (std::size_t s = 0; s < summed; ++s) {
    const T *from_a = a.at(i + s), *from_b = b.at(i + s);
    for (unsigned k = 0; k < depth; k += kTile) {
      load_tile(left, a, from_a, row, k);
      load_tile(right, b, from_b, k, column);
      __syncthreads();
#pragma unroll 8
      for (unsigned p = 0; p < kTile; ++p) {
#pragma unroll
        for (unsigned r = 0; r < kTile / kRowStep; ++r) {
          sums[r] += left[threadIdx.y + r * kRowStep][p] * right[p][threadIdx.x];
        }
      }
      __syncthreads();
    }
  }
  T* to = c.at(i);
#pragma unroll
  for (unsigned r = 0; r < kTile / kRowStep; ++r) {
    const unsigned y = row + threadIdx.y + r * kRowStep, x = column + threadIdx.x;
    if (y < c.rows && x < c.columns) to[y * c.stride + x] = cuda::narrow<T>(sums[r]);
  }
}

void batched_gemm_kernel(const OpContext& ctx, const BatchedGemm& op) {
  if (op.c.size() == 0) return;
  const MatrixBatch a(op.a), b(op.b), c(op.c);
  const std::size_t columns = (c.columns + kTile - 1) / kTile;
  const std::size_t tiles = (c.rows + kTile - 1) / kTile * columns;
  cuda::with_real_type(op.c.dtype, [&]<class T>(T) {
    cuda::launch(ctx, BatchedGemm::kName, dim3(static_cast<unsigned>(c.count * tiles)),
                 dim3(kTile, kRowStep), 0, &multiply_tiles<T>, FastDivide(tiles),
                 FastDivide(columns), c.count == 1 ? std::max(a.count, b.count) : 1,
                 static_cast<unsigned>(op.transpose_a ? a.rows : a.columns),
                 Matrices<T>(a, op.transpose_a), Matrices<T>(b, op.transpose_b), Matrices<T>(c));
  });
}

const OpRegistration<BatchedGemm> batched_gemm_cuda{DeviceType::Cuda, &batched_gemm_kernel};

}  // namespace
}  // namespace hugectr
