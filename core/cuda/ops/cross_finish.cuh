// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cuda/ops/cross_weights.cuh"

/// The end of the backward of MultiCross: from the sums of the pieces to the gradients of all
/// weights, in double.
namespace hugectr {
namespace {

constexpr unsigned kFinishColumns = 8;  // of a block
constexpr unsigned kFinishThreads = 512;

struct CrossFinish {
  const float* partial;
  std::size_t pieces;
  CrossWeights weights;
  float* dw[kMostCrossLayers];
  float* db[kMostCrossLayers];
};

/// Totals that a block makes, kFinishColumns of each: of dw_l, of dy, and all A_l.
__host__ __device__ inline unsigned finish_totals(unsigned layers) {
  return layers + 1 + (layers + kFinishColumns - 1) / kFinishColumns;
}

// A block takes kFinishColumns columns of every vector. Groups of that many threads take every
// kFinishThreads / kFinishColumns-th piece. Moves 4 ((L + 1) n + L) bytes a piece.
__global__ void __launch_bounds__(kFinishThreads)
    cross_finish(const __grid_constant__ CrossFinish op) {
  constexpr unsigned kWarps = kFinishThreads / 32, kGroups = kFinishThreads / kFinishColumns;
  extern __shared__ double sums_memory[];
  const unsigned layers = op.weights.layers, n = op.weights.n, totals = finish_totals(layers);
  double* of_warps = sums_memory;  // totals x kWarps x kFinishColumns
  double* total = sums_memory + totals * kWarps * kFinishColumns;
  const unsigned own = threadIdx.x % kFinishColumns, group = threadIdx.x / kFinishColumns;
  const unsigned first = blockIdx.x * kFinishColumns;
  const std::size_t row = std::size_t{layers + 1} * n + layers;

  for (unsigned t = 0; t < totals; ++t) {
    const bool of_column = t <= layers;
    const unsigned place = of_column ? first + own : (t - layers - 1) * kFinishColumns + own;
    const std::size_t column = of_column ? std::size_t{t} * n + place : row - layers + place;
    double sum = 0.0;
    if (place < (of_column ? n : layers)) {
#pragma unroll 8
      for (std::size_t piece = group; piece < op.pieces; piece += kGroups) {
        sum += static_cast<double>(op.partial[piece * row + column]);
      }
    }
#pragma unroll
    for (unsigned step = kFinishColumns; step < 32; step *= 2) {
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
    }
    if (threadIdx.x % 32 < kFinishColumns) {
      of_warps[(t * kWarps + threadIdx.x / 32) * kFinishColumns + own] = sum;
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < totals * kFinishColumns; i += kFinishThreads) {
    double sum = 0.0;
#pragma unroll
    for (unsigned w = 0; w < kWarps; ++w) {
      sum += of_warps[(i / kFinishColumns * kWarps + w) * kFinishColumns + i % kFinishColumns];
    }
    total[i] = sum;
  }
  __syncthreads();
  const double* sum_a = total + (layers + 1) * kFinishColumns;
  for (unsigned i = threadIdx.x; i < layers * kFinishColumns; i += kFinishThreads) {
    const unsigned l = i / kFinishColumns, j = first + i % kFinishColumns;
    if (j >= n) continue;
    float bias = 0.0f;  // B_l
#pragma unroll 4
    for (unsigned m = 0; m < l; ++m) bias += op.weights.b[m][j];
    double db = total[layers * kFinishColumns + i % kFinishColumns];
#pragma unroll 4
    for (unsigned m = l + 1; m < layers; ++m) {
      db += sum_a[m] * static_cast<double>(op.weights.w[m][j]);
    }
    const double dw = total[i] + sum_a[l] * static_cast<double>(bias);
    op.dw[l][j] = static_cast<float>(static_cast<double>(op.dw[l][j]) + dw);
    op.db[l][j] = static_cast<float>(static_cast<double>(op.db[l][j]) + db);
  }
}

inline void finish_cross_weights(const OpContext& ctx, const MultiCrossBwd& op) {
  CrossFinish args;
  args.partial = op.partial.ptr<float>();
  args.pieces = op.partial.rows();
  args.weights = cross_weights(op.ws, op.bs);
  for (std::size_t l = 0; l < op.ws.size(); ++l) {
    args.dw[l] = op.dws[l].ptr<float>();
    args.db[l] = op.dbs[l].ptr<float>();
  }
  const std::size_t shared = std::size_t{finish_totals(args.weights.layers)} * kFinishColumns *
                             (kFinishThreads / 32 + 1) * sizeof(double);
  const unsigned grid = (args.weights.n + kFinishColumns - 1) / kFinishColumns;
  cuda::launch(ctx, MultiCrossBwd::kName, dim3(grid), dim3(kFinishThreads), shared, &cross_finish,
               args);
}

}  // namespace
}  // namespace hugectr
