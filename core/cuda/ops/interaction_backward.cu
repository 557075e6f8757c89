// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cuda/ops/interaction.hpp"
#include "core/cuda/ops/interaction_rows.cuh"
#include "core/cuda/primitives/mma.cuh"
#include "core/cuda/primitives/real.cuh"
#include "core/cuda/primitives/stream_words.cuh"

// The backward pass on tensor cores: dX = G X, a warp a sample, X and dX between global memory and
// registers without a stop.
//
// The product contracts over the rows of X. Lane (g, t) loads kV neighbouring columns of rows 2t,
// 2t + 1, 2t + 8, 2t + 9 of every 16, and pairs the rows up in registers: that makes the right
// factor of kV products, product e holding column e of every lane's columns. Their sums in a lane
// then are kV neighbouring columns again, for the store. G comes from shared memory, where the
// pairs of dy are laid out as its lower triangle: a 16 x 16 tile of G is a tile of the triangle,
// its transpose, or on the diagonal both.
namespace hugectr::cuda {
namespace {

constexpr unsigned kWarps = 4;  // of a block

/// What a warp keeps in shared memory: the lower triangle of G, kTiles * 16 rows, zero elsewhere.
template <int kTiles>
struct Triangle {
  static constexpr unsigned kRows = 16 * kTiles;
  static constexpr unsigned kPitch = kRows + 8;  // 8 rows lie in different banks
  static constexpr unsigned kPairs = kRows * (kRows - 1) / 2;
  static constexpr int kWords = (kPairs + 63) / 64;  // of the pairs, in every lane
};

template <int kTiles, int kV>
struct ColumnRegisters {
  unsigned words[kTiles][4][kV / 2];
};

/// The part of a row that lane group g takes. The sums of a product are columns 2t and 2t + 1 in
/// lane t; in this order the four lanes of a row store neighbouring parts.
__device__ inline unsigned part_of(unsigned g) { return g / 2 + g % 2 * 4; }

template <class T, int kTiles, int kV>
__device__ void load_columns(ColumnRegisters<kTiles, kV>& x, const SampleRows<T>& rows,
                             std::size_t sample, unsigned first_column) {
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const unsigned column = first_column + part_of(g) * kV;
#pragma unroll
  for (int k = 0; k < kTiles; ++k) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const unsigned n = 16 * k + 2 * t + q % 2 + q / 2 * 8;
      load_words<kV / 2>(x.words[k][q], rows.at(sample, n) + column,
                         n < rows.count && column < rows.width);
    }
  }
}

// Two neighbouring pairs a word, words `lane` apart; one by one when dy is not aligned to words.
template <class T, int kWords>
__device__ void load_pairs(unsigned (&to)[kWords], const T* pairs, unsigned count, bool words) {
  const unsigned lane = threadIdx.x % 32;
  if (words) {  // the pad makes the last word whole
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const unsigned at = 2 * (32 * i + lane);
      load_words<1>(reinterpret_cast<unsigned (&)[1]>(to[i]), pairs + at, at < count);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const unsigned at = 2 * (32 * i + lane);
    to[i] = at < count ? pairs[at].bits : 0;
    if (at + 1 < count) to[i] |= static_cast<unsigned>(pairs[at + 1].bits) << 16;
  }
}

// places[i]: where pair i goes in the triangle.
template <class T, int kWords>
__device__ void lay_out_pairs(T* triangle, const unsigned short* places,
                              const unsigned (&pairs)[kWords], unsigned count) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const unsigned at = 2 * (32 * i + lane);
    if (at >= count) continue;
    const unsigned two = *reinterpret_cast<const unsigned*>(places + at);
    triangle[two & 0xFFFF].bits = static_cast<unsigned short>(pairs[i]);
    if (at + 1 < count) triangle[two >> 16].bits = static_cast<unsigned short>(pairs[i] >> 16);
  }
}

// Rows 16 m .. of G, as left factors.
template <class T, int kTiles>
__device__ void load_gradients(unsigned (&a)[kTiles][4], const T* triangle, int m) {
  constexpr unsigned kPitch = Triangle<kTiles>::kPitch;
  const unsigned lane = threadIdx.x % 32;
  const T* own = triangle + lane % 16 * kPitch + lane / 16 * 8;
  const T* mirrored = triangle + (lane % 8 + lane / 16 * 8) * kPitch + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < kTiles; ++k) {
    if (k < m) {
      load_matrix(a[k], own + 16 * m * kPitch + 16 * k);
    } else if (k > m) {
      load_matrix_transposed(a[k], mirrored + 16 * k * kPitch + 16 * m);
    } else {
      unsigned below[4];
      load_matrix(below, own + 16 * m * kPitch + 16 * m);
      load_matrix_transposed(a[k], mirrored + 16 * m * kPitch + 16 * m);
#pragma unroll
      for (int i = 0; i < 4; ++i) a[k][i] |= below[i];  // one of the two is zero
    }
  }
}

/// Where results go, and the gradient that reaches mlp past the pairs.
template <class T>
struct Results {
  Rows<T> dmlp, demb;
  Rows<const T> dy;
  bool dy_packs;  ///< dy may be read kV columns at a time
};

// Rounds and stores kV columns of row n; row 0 is mlp's.
template <class T, int kV>
__device__ void store_columns(const Results<T>& out, const SampleRows<T>& rows, std::size_t sample,
                              unsigned n, unsigned column, float (&sum)[kV]) {
  T* to;
  if (n == 0) {
    if (out.dmlp.data == nullptr) return;
    to = out.dmlp.at(sample, column);
    const T* direct = out.dy.at(sample, column);
    if (out.dy_packs) {
      const Pack<float, kV> more = load_widened<kV>(direct);
#pragma unroll
      for (int e = 0; e < kV; ++e) sum[e] += more.v[e];
    } else {
#pragma unroll
      for (int e = 0; e < kV; ++e) sum[e] += widen(direct[e]);
    }
  } else {
    if (out.demb.data == nullptr) return;
    to = out.demb.at(sample, 0) + (n - 1) * rows.width + column;
  }
  unsigned words[kV / 2];
#pragma unroll
  for (int w = 0; w < kV / 2; ++w) {
    words[w] = narrow<T>(sum[2 * w]).bits | static_cast<unsigned>(narrow<T>(sum[2 * w + 1]).bits)
                                                << 16;
  }
  store_words<kV / 2>(to, words);
}

// dX of 8 kV columns from first_column on.
template <class T, int kTiles, int kV>
__device__ void multiply_columns(const ColumnRegisters<kTiles, kV>& x, const T* triangle,
                                 const Results<T>& out, const SampleRows<T>& rows,
                                 std::size_t sample, unsigned first_column) {
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  unsigned b[kTiles][kV][2];
#pragma unroll
  for (int k = 0; k < kTiles; ++k) {
#pragma unroll
    for (int w = 0; w < kV / 2; ++w) {
      const auto& q = x.words[k];
      b[k][2 * w][0] = low_halves(q[0][w], q[1][w]);
      b[k][2 * w][1] = low_halves(q[2][w], q[3][w]);
      b[k][2 * w + 1][0] = high_halves(q[0][w], q[1][w]);
      b[k][2 * w + 1][1] = high_halves(q[2][w], q[3][w]);
    }
  }
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    if (16 * m >= rows.count || (m > 0 && out.demb.data == nullptr)) continue;
    unsigned a[kTiles][4];
    load_gradients<T, kTiles>(a, triangle, m);
    float sums[kV][4] = {};
#pragma unroll
    for (int k = 0; k < kTiles; ++k) {
#pragma unroll
      for (int e = 0; e < kV; ++e) {
        multiply_add_16x8x16<T>(sums[e], a[k][0], a[k][1], a[k][2], a[k][3], b[k][e][0],
                                b[k][e][1]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const unsigned n = 16 * m + 8 * r + g, column = first_column + (t + 4 * side) * kV;
        if (n >= rows.count || column >= rows.width) continue;
        float sum[kV];
#pragma unroll
        for (int e = 0; e < kV; ++e) sum[e] = sums[e][2 * r + side];
        store_columns<T, kV>(out, rows, sample, n, column, sum);
      }
    }
  }
}

// Moves 2 (2 T w + w + T (T - 1) / 2) bytes a sample. kAhead: loads the next columns, or the next
// sample, before it works on what it has.
template <class T, int kTiles, int kV, bool kAhead>
__global__ void __launch_bounds__(32 * kWarps)
    backward_kernel(SampleRows<T> rows, Results<T> out, bool words) {
  using Shape = Triangle<kTiles>;
  __shared__ __align__(16) unsigned short places[Shape::kPairs];
  __shared__ __align__(16) T triangles[kWarps][Shape::kRows * Shape::kPitch];
  for (unsigned i = threadIdx.x; i < kWarps * Shape::kRows * Shape::kPitch; i += blockDim.x) {
    triangles[0][i] = T{};
  }
  for (unsigned i = threadIdx.x; i < Shape::kRows * Shape::kRows; i += blockDim.x) {
    const unsigned n = i / Shape::kRows, m = i % Shape::kRows;
    if (n > m) places[n * (n - 1) / 2 + m] = static_cast<unsigned short>(n * Shape::kPitch + m);
  }
  __syncthreads();
  T* triangle = triangles[threadIdx.x / 32];
  const unsigned count = rows.count * (rows.count - 1) / 2;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kWarps;
  std::size_t sample = static_cast<std::size_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  ColumnRegisters<kTiles, kV> x, next;
  unsigned pairs[Shape::kWords];
  const auto begin_sample = [&](ColumnRegisters<kTiles, kV>& to, std::size_t s) {
    load_pairs(pairs, out.dy.at(s, rows.width), count, words);
    load_columns(to, rows, s, 0);
  };
  if (kAhead && sample < rows.batch) begin_sample(next, sample);
  for (; sample < rows.batch; sample += step) {
    if constexpr (!kAhead) begin_sample(x, sample);
    __syncwarp();
    lay_out_pairs(triangle, places, pairs, count);
    __syncwarp();
    for (unsigned first = 0; first < rows.width; first += 8 * kV) {
      const unsigned following = first + 8 * kV;
      if constexpr (kAhead) {
        x = next;
        if (following < rows.width) {
          load_columns(next, rows, sample, following);
        } else if (sample + step < rows.batch) {
          begin_sample(next, sample + step);
        }
      } else if (first > 0) {
        load_columns(x, rows, sample, first);
      }
      multiply_columns(x, triangle, out, rows, sample, first);
    }
  }
}

template <class T>
using BackwardKernel = void (*)(SampleRows<T>, Results<T>, bool);

template <class T, int kTiles>
BackwardKernel<T> kernel_for(unsigned width) {
  if (width <= 16) return &backward_kernel<T, kTiles, 2, false>;
  if (width <= 32) return &backward_kernel<T, kTiles, 4, true>;
  return &backward_kernel<T, kTiles, 8, false>;
}

template <class T>
bool run_backward(const OpContext& context, const InteractionBwd& op) {
  const auto rows = tensor_core_rows<T>(op.mlp, op.emb);
  if (rows.count == 0 || !whole_packs<T>(op.dmlp) || !whole_packs<T>(op.demb)) return false;
  const auto fits = [&](std::size_t v) {
    return packs_fit(op.dy.ptr<T>(), op.dy.rows() > 1 ? op.dy.row_stride : 0, v);
  };
  const Results<T> out{rows_of<T>(op.dmlp), rows_of<T>(op.demb), rows_of<const T>(op.dy), fits(8)};
  const BackwardKernel<T> kernel = rows.count <= 16   ? kernel_for<T, 1>(rows.width)
                                   : rows.count <= 32 ? kernel_for<T, 2>(rows.width)
                                                      : kernel_for<T, 4>(rows.width);
  launch(context, InteractionBwd::kName, dim3(grid_for(rows.batch, kWarps)), dim3(32 * kWarps), 0,
         kernel, rows, out, fits(2));
  return true;
}

}  // namespace

bool interaction_bwd_on_tensor_cores(const OpContext& context, const InteractionBwd& op) {
  switch (op.dy.dtype) {
    case TensorScalarType::Float16:
      return run_backward<Float16>(context, op);
    case TensorScalarType::BFloat16:
      return run_backward<BFloat16>(context, op);
    default:
      return false;
  }
}

}  // namespace hugectr::cuda
