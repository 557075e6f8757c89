// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <type_traits>

#include "core/cuda/ops/attention.hpp"
#include "core/cuda/primitives/mma.cuh"
#include "core/cuda/primitives/real.cuh"
#include "core/cuda/primitives/special_functions.cuh"

/// What both passes of attention on tensor cores share.
///
/// A block has one sample and a few heads, whose columns are about a cache line. What every warp
/// needs (keys and values, or queries and gradients) lies in shared memory, 16 rows a tile; a warp
/// has 16 rows of the other side in registers. Scores are tiles of 16 x 16, made from the registers
/// of one product into those of the next: what a lane holds of a result is what it must hold of a
/// left factor (mma.cuh). Below, lane = 4 g + t as there.
namespace hugectr::cuda {

inline constexpr unsigned kTile = 16;
inline constexpr unsigned kTileWarps = 8;
inline constexpr unsigned kTileThreads = 32 * kTileWarps;
inline constexpr unsigned kLineColumns = 64;  ///< of 16 bits: what a block takes of a row

__host__ __device__ constexpr unsigned whole_tiles(unsigned rows) {
  return (rows + kTile - 1) / kTile * kTile;
}

__device__ inline float quad_sum(float value) {
  value += __shfl_xor_sync(0xFFFFFFFFu, value, 1);
  return value + __shfl_xor_sync(0xFFFFFFFFu, value, 2);
}

__device__ inline float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, 2));
}

/// The op as a block sees it.
template <class T>
struct TileProblem {
  template <class Op>
  explicit TileProblem(const Op& op)
      : heads(static_cast<unsigned>(op.heads)),
        width(static_cast<unsigned>(op.q.shape[2])),
        queries(static_cast<unsigned>(op.q.shape[1])),
        keys(static_cast<unsigned>(op.k.shape[1])),
        scale(attention_scale(op.q, op.heads)),
        q(rows_of<const T>(op.q)),
        k(rows_of<const T>(op.k)),
        v(rows_of<const T>(op.v)),
        mask(rows_of<const T>(op.mask)),
        of_mask(samples_of_mask(op)) {
    const unsigned dim = width / heads;
    block_heads = std::max(1u, std::min(heads, kLineColumns / dim));
    while (heads % block_heads != 0) --block_heads;
    stride = block_heads * dim + 8;  // lanes that read 8 rows hit all banks
  }
  unsigned heads, width, queries, keys;
  unsigned block_heads = 1, stride = 0;  ///< of a block; elements of a row in shared memory
  float scale;
  Rows<const T> q, k, v, mask;
  FastDivide of_mask;  ///< samples that share one

  unsigned groups() const { return heads / block_heads; }

  /// What a score is less than q . k, in powers of two.
  __device__ float penalty(unsigned sample, unsigned query, unsigned key) const {
    if (mask.data == nullptr || query >= queries || key >= keys) return 0.0f;
    const std::size_t pair = static_cast<std::size_t>(query) * keys + key;
    return (1.0f - widen(*mask.at(of_mask.quotient(sample), pair))) * (kMaskedPair * kLog2E);
  }
};

/// Which sample and heads a block has.
struct TileBlock {
  unsigned sample, first_head, warp, lane, g, t;
};

template <class T>
__device__ TileBlock tile_block(const TileProblem<T>& in) {
  const unsigned groups = in.heads / in.block_heads, lane = threadIdx.x % 32;
  return {blockIdx.x / groups,
          blockIdx.x % groups * in.block_heads,
          threadIdx.x / 32,
          lane,
          lane / 4,
          lane % 4};
}

/// Copies `rows` rows of the block's columns to shared memory and fills the last tile with zeros.
template <class T>
__device__ void load_tiles(T* to, unsigned stride, const T* from, unsigned width, unsigned rows,
                           unsigned columns) {
  const unsigned pieces = columns / 8;
  for (unsigned e = threadIdx.x; e < whole_tiles(rows) * pieces; e += kTileThreads) {
    const unsigned row = e / pieces, piece = e % pieces;
    uint4 words = make_uint4(0, 0, 0, 0);
    if (row < rows) {
      words =
          *reinterpret_cast<const uint4*>(from + static_cast<std::size_t>(row) * width + 8 * piece);
    }
    *reinterpret_cast<uint4*>(to + row * stride + 8 * piece) = words;
  }
}

/// 16 rows of one head as a left factor.
template <int kDim>
struct LeftRows {
  unsigned words[kDim / 16][4];

  template <class T>
  __device__ void load(const T* head, unsigned width, unsigned first, unsigned rows, unsigned g,
                       unsigned t) {
    const unsigned row0 = first + g, row1 = row0 + 8;
    const auto word = [&](unsigned row, unsigned column) {
      return row < rows ? *reinterpret_cast<const unsigned*>(
                              head + static_cast<std::size_t>(row) * width + column)
                        : 0u;
    };
#pragma unroll
    for (int i = 0; i < kDim / 16; ++i) {
      const unsigned column = 16 * i + 2 * t;
      words[i][0] = word(row0, column);
      words[i][1] = word(row1, column);
      words[i][2] = word(row0, column + 8);
      words[i][3] = word(row1, column + 8);
    }
  }
};

/// A 16 x 16 result: low holds columns 0 .. 7, high the others, as `c` of mma.cuh.
struct Tile {
  float low[4], high[4];
};

/// rows x (the 16 rows at `tile` in shared memory)^T.
template <class T, int kDim>
__device__ Tile multiply_rows(const LeftRows<kDim>& rows, const T* tile, unsigned stride,
                              unsigned lane) {
  Tile result{};
  const T* from = tile + lane % 16 * stride + 8 * (lane / 16);
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    unsigned b[4];
    load_matrix(b, from + 16 * i);
    const auto& a = rows.words[i];
    multiply_add_16x8x16<T>(result.low, a[0], a[1], a[2], a[3], b[0], b[2]);
    multiply_add_16x8x16<T>(result.high, a[0], a[1], a[2], a[3], b[1], b[3]);
  }
  return result;
}

/// sums += factors x (the 16 rows at `tile`), factors rounded to T.
template <class T, int kDim>
__device__ void add_product(float (&sums)[kDim / 8][4], const Tile& factors, const T* tile,
                            unsigned stride, unsigned lane) {
  const unsigned a0 = narrow_two<T>(factors.low[0], factors.low[1]);
  const unsigned a1 = narrow_two<T>(factors.low[2], factors.low[3]);
  const unsigned a2 = narrow_two<T>(factors.high[0], factors.high[1]);
  const unsigned a3 = narrow_two<T>(factors.high[2], factors.high[3]);
  const T* from = tile + (lane % 8 + 8 * (lane / 16)) * stride + 8 * (lane / 8 % 2);
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    unsigned b[4];
    load_matrix_transposed(b, from + 16 * i);
    multiply_add_16x8x16<T>(sums[2 * i], a0, a1, a2, a3, b[0], b[2]);
    multiply_add_16x8x16<T>(sums[2 * i + 1], a0, a1, a2, a3, b[1], b[3]);
  }
}

/// Calls f(element, row 0 or 1 of the lane's two, column of the tile) for all the lane has.
template <class F>
__device__ void for_each_element(Tile& tile, unsigned t, const F& f) {
#pragma unroll
  for (unsigned e = 0; e < 4; ++e) {
    f(tile.low[e], e / 2, 2 * t + e % 2);
    f(tile.high[e], e / 2, 8 + 2 * t + e % 2);
  }
}

/// Rows first + g and first + g + 8 of one head, each times its factor.
template <class T, int kDim>
__device__ void store_rows(T* head, unsigned width, unsigned first, unsigned rows, unsigned g,
                           unsigned t, const float (&sums)[kDim / 8][4], float factor0,
                           float factor1) {
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i) {
    const unsigned column = 8 * i + 2 * t;
    const auto store = [&](unsigned row, unsigned words) {
      if (row >= rows) return;
      *reinterpret_cast<unsigned*>(head + static_cast<std::size_t>(row) * width + column) = words;
    };
    store(first + g, narrow_two<T>(factor0 * sums[i][0], factor0 * sums[i][1]));
    store(first + g + 8, narrow_two<T>(factor1 * sums[i][2], factor1 * sums[i][3]));
  }
}

/// True when a tensor's samples can be read 16 bytes at a time.
inline bool tiles_fit(const TensorRef& ref) {
  return reinterpret_cast<std::uintptr_t>(ref.data) % 16 == 0 && ref.row_stride % 8 == 0;
}

/// Calls f(T{}, constant of the size of a head) and returns true, or returns false where there is
/// no such kernel.
template <class Op, class F>
bool with_tiles(const Op& op, const F& f) {
  const auto dim = op.q.shape[2] / static_cast<std::size_t>(op.heads);
  const auto with_dim = [&](auto zero) {
    switch (dim) {
      case 16:
        return f(zero, std::integral_constant<int, 16>{});
      case 32:
        return f(zero, std::integral_constant<int, 32>{});
      case 64:
        return f(zero, std::integral_constant<int, 64>{});
      default:
        return false;
    }
  };
  if (op.q.dtype == TensorScalarType::Float16) return with_dim(Float16{});
  if (op.q.dtype == TensorScalarType::BFloat16) return with_dim(BFloat16{});
  return false;
}

}  // namespace hugectr::cuda
