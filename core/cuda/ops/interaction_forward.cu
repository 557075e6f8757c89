// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cuda/ops/interaction.hpp"
#include "core/cuda/ops/interaction_rows.cuh"
#include "core/cuda/primitives/mma.cuh"
#include "core/cuda/primitives/real.cuh"
#include "core/cuda/primitives/stream_words.cuh"

// The forward pass on tensor cores: a warp a sample, X straight from global memory to the registers
// that the matrix instructions take.
//
// X X^T contracts over the columns, so any order of the columns will do as long as it is that of
// both factors. Lane (g, t) loads kV neighbouring columns of rows g, g + 8, ..: the lanes of a row
// read 64 bytes in a row, and registers 2h, 2h + 1 of all lanes hold 16 columns of 8 rows. That is
// half of the left factor of a product of 16 x 16 by 16 x 8, and all of the right one.
namespace hugectr::cuda {
namespace {

constexpr unsigned kWarps = 4;  // of a block

/// Registers of X: row 8 i + g, `block` of 4 kV columns.
template <int kGroups, int kBlocks, int kV>
struct RowRegisters {
  unsigned words[kGroups][kBlocks][kV / 2];
};

template <class T, int kGroups, int kBlocks, int kV>
__device__ void load_rows(RowRegisters<kGroups, kBlocks, kV>& x, const SampleRows<T>& rows,
                          std::size_t sample, unsigned first_column) {
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < kGroups; ++i) {
    const unsigned n = 8 * i + g;
    const T* row = rows.at(sample, n);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const unsigned column = first_column + (4 * b + t) * kV;
      load_words<kV / 2>(x.words[i][b], row + column, n < rows.count && column < rows.width);
    }
  }
}

/// Products of rows 16 m .. 16 m + 15 with rows 8 j .. 8 j + 7, j <= 2 m + 1, at m (m + 1) + j.
template <int kGroups>
constexpr int kTiles = kGroups / 2 * (kGroups / 2 + 1);

template <class T, int kGroups, int kBlocks, int kV>
__device__ void add_products(float (&dots)[kTiles<kGroups>][4],
                             const RowRegisters<kGroups, kBlocks, kV>& x) {
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (int w = 0; w < kV / 2; w += 2) {
#pragma unroll
      for (int m = 0; m < kGroups / 2; ++m) {
        const auto &top = x.words[2 * m][b], &bottom = x.words[2 * m + 1][b];
#pragma unroll
        for (int j = 0; j <= 2 * m + 1; ++j) {
          multiply_add_16x8x16<T>(dots[m * (m + 1) + j], top[w], bottom[w], top[w + 1],
                                  bottom[w + 1], x.words[j][b][w], x.words[j][b][w + 1]);
        }
      }
    }
  }
}

// Puts the pairs of a sample where y wants them: 8 x 8 blocks left of the diagonal whole, on it the
// part below it.
template <class T, int kGroups>
__device__ void stage_pairs(T* pairs, const float (&dots)[kTiles<kGroups>][4], unsigned rows) {
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < kGroups; ++i) {
    const unsigned n = 8 * i + g;
    if (n >= rows) continue;
    T* to = pairs + n * (n - 1) / 2 + 2 * t;  // n = 0 has no pair and writes none
#pragma unroll
    for (int j = 0; j <= i; ++j) {
      const float* dot = dots[i / 2 * (i / 2 + 1) + j] + i % 2 * 2;
      if (j < i || g > 2 * t) to[8 * j] = narrow<T>(dot[0]);
      if (j < i || g > 2 * t + 1) to[8 * j + 1] = narrow<T>(dot[1]);
    }
  }
}

template <class Word>
__device__ void copy_out(void* to, const void* from, unsigned bytes) {
  for (unsigned i = threadIdx.x % 32; i < bytes / sizeof(Word); i += 32) {
    static_cast<Word*>(to)[i] = static_cast<const Word*>(from)[i];
  }
}

// Moves 2 (T w + w + T (T - 1) / 2 + 1) bytes a sample. Loads the next columns, or the next sample,
// before it works on what it has: a kernel that waits for its loads reaches three quarters of this.
template <class T, int kGroups, int kBlocks, int kV>
__global__ void __launch_bounds__(32 * kWarps)
    forward_kernel(SampleRows<T> rows, Rows<T> y, unsigned columns, unsigned word, unsigned pitch) {
  extern __shared__ __align__(16) unsigned char shared[];
  T* staged = reinterpret_cast<T*>(shared) + threadIdx.x / 32 * pitch;  // a row of y
  const unsigned lane = threadIdx.x % 32;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kWarps;
  std::size_t sample = static_cast<std::size_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (lane == 0) staged[columns - 1] = T{};  // the pad
  RowRegisters<kGroups, kBlocks, kV> x, next;
  if (sample < rows.batch) load_rows(next, rows, sample, 0);
  for (; sample < rows.batch; sample += step) {
    float dots[kTiles<kGroups>][4] = {};
    for (unsigned first = 0; first < rows.width; first += 4 * kV * kBlocks) {
      x = next;
      const unsigned following = first + 4 * kV * kBlocks;
      if (following < rows.width) {
        load_rows(next, rows, sample, following);
      } else if (sample + step < rows.batch) {
        load_rows(next, rows, sample + step, 0);
      }
      add_products<T>(dots, x);
      if (lane < 4) {  // row 0 is mlp
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          const unsigned column = first + (4 * b + lane) * kV;
          if (column >= rows.width) continue;
          auto* to = reinterpret_cast<Pack<unsigned, kV / 2>*>(staged + column);
#pragma unroll
          for (int w = 0; w < kV / 2; ++w) to->v[w] = x.words[0][b][w];
        }
      }
    }
    stage_pairs<T, kGroups>(staged + rows.width, dots, rows.count);
    __syncwarp();
    T* to = y.at(sample, 0);
    if (word == 16) {
      copy_out<uint4>(to, staged, columns * sizeof(T));
      const unsigned whole = columns / 8 * 8;
      if (whole + lane < columns) to[whole + lane] = staged[whole + lane];
    } else if (word == 4) {
      copy_out<unsigned>(to, staged, columns * sizeof(T));
      if (columns % 2 == 1 && lane == 0) to[columns - 1] = staged[columns - 1];
    } else {
      copy_out<T>(to, staged, columns * sizeof(T));
    }
    __syncwarp();
  }
}

template <class T>
using ForwardKernel = void (*)(SampleRows<T>, Rows<T>, unsigned, unsigned, unsigned);

template <class T, int kGroups>
ForwardKernel<T> kernel_for(unsigned width) {
  constexpr int kMost = kGroups <= 4 ? 4 : 2;  // blocks that leave room for the sums
  if (width <= 16) return &forward_kernel<T, kGroups, 1, 4>;
  if (width <= 32) return &forward_kernel<T, kGroups, 1, 8>;
  if (width <= 64) return &forward_kernel<T, kGroups, 2, 8>;
  return &forward_kernel<T, kGroups, kMost, 8>;
}

template <class T>
ForwardKernel<T> kernel_for(unsigned rows, unsigned width) {
  if (rows <= 16) return kernel_for<T, 2>(width);
  if (rows <= 32) return kernel_for<T, 4>(width);
  return kernel_for<T, 8>(width);
}

template <class T>
bool run_forward(const OpContext& context, const InteractionFwd& op) {
  const auto rows = tensor_core_rows<T>(op.mlp, op.emb);
  if (rows.count == 0) return false;
  const auto columns = static_cast<unsigned>(op.y.shape[1]);
  const auto fits = [&](std::size_t v) {
    return packs_fit(op.y.ptr<T>(), op.y.rows() > 1 ? op.y.row_stride : 0, v);
  };
  const unsigned pitch = (columns + 7) / 8 * 8;
  launch(context, InteractionFwd::kName, dim3(grid_for(rows.batch, kWarps)), dim3(32 * kWarps),
         kWarps * pitch * sizeof(T), kernel_for<T>(rows.count, rows.width), rows, rows_of<T>(op.y),
         columns,
         fits(8)   ? 16u
         : fits(2) ? 4u
                   : 2u,
         pitch);
  return true;
}

}  // namespace

bool interaction_fwd_on_tensor_cores(const OpContext& context, const InteractionFwd& op) {
  switch (op.y.dtype) {
    case TensorScalarType::Float16:
      return run_forward<Float16>(context, op);
    case TensorScalarType::BFloat16:
      return run_forward<BFloat16>(context, op);
    default:
      return false;
  }
}

}  // namespace hugectr::cuda
