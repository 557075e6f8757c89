// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cuda/ops/interaction.hpp"
#include "core/cuda/ops/interaction_samples.cuh"
#include "core/cuda/primitives/group_sum.cuh"
#include "core/cuda/primitives/real.cuh"

// Any shape and dtype: rows in shared memory as floats, products in float32.
namespace hugectr::cuda {
namespace {

/// A sample that needs more shared memory than every GPU has goes through the caches instead.
constexpr std::size_t kMostShared = 96 * 1024;

/// The forward's cut of the pairs. With G = ceil(T / 4), tile (p, q), p >= q, holds the dots of
/// rows p, p + G, p + 2G, p + 3G with rows q, q + G, ..: every pair once, and lanes of a warp that
/// take neighbouring tiles read neighbouring rows, which lie in different banks.
struct PairTiles {
  unsigned groups = 0, count = 0;
  unsigned threads = 0;  ///< tiles worked on at once, each by two threads: even and odd quads
};

PairTiles pair_tiles(std::size_t rows) {
  PairTiles t;
  t.groups = static_cast<unsigned>((rows + 3) / 4);
  t.count = t.groups * (t.groups + 1) / 2;
  t.threads = std::min(128u, (t.count + 31) / 32 * 32);
  return t;
}

// 16 dots of a tile over every second quad of columns, from quad `first` on.
__device__ void tile_dots(const float* const (&a)[4], const float* const (&b)[4], std::size_t first,
                          std::size_t quads, float (&dots)[16]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) dots[i] = 0.0f;
  for (std::size_t q = first; q < quads; q += 2) {
    Pack<float, 4> u[4], v[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      u[r] = load_pack<4>(a[r] + q * 4);
      v[r] = load_pack<4>(b[r] + q * 4);
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
#pragma unroll
        for (int k = 0; k < 4; ++k) dots[r * 4 + c] += u[r].v[k] * v[c].v[k];
      }
    }
  }
}

// A block takes a sample at a time. Shared memory: X, the pairs, and the sums of the odd quads.
// Moves T w + w + T(T-1)/2 + 1 elements and does T(T-1) w FLOPs a sample.
template <class T>
__global__ void __launch_bounds__(256)
    interaction_forward(Samples<T> s, PairTiles tiles, Rows<T> y, bool y_packs) {
  extern __shared__ __align__(16) float shared[];
  float* x = shared;
  float* pairs = x + s.rows * s.pitch;
  const std::size_t pair_count = s.rows * (s.rows - 1) / 2;
  float* odd = pairs + (pair_count + 1 + 3) / 4 * 4;  // 16 x tiles.threads
  const unsigned half = threadIdx.x / tiles.threads, own = threadIdx.x % tiles.threads;
  clear_padding(s, x);
  for (std::size_t sample = blockIdx.x; sample < s.batch; sample += gridDim.x) {
    begin_copy(s, sample, x);
    __pipeline_commit();
    if (threadIdx.x == 0) pairs[pair_count] = 0.0f;  // the pad
    __pipeline_wait_prior(0);
    __syncthreads();
    for (unsigned begin = 0; begin < tiles.count; begin += tiles.threads) {
      const unsigned tile = begin + own;
      const bool active = tile < tiles.count;
      unsigned p = 0, first = 0;  // first: number of tile (p, 0)
      float dots[16];
      if (active) {
        while (first + p + 1 <= tile) first += ++p;
        const unsigned q = tile - first;
        const float *a[4], *b[4];
#pragma unroll
        for (unsigned r = 0; r < 4; ++r) {
          const std::size_t n = p + r * tiles.groups, m = q + r * tiles.groups;
          a[r] = x + (n < s.rows ? n : s.rows - 1) * s.pitch;
          b[r] = x + (m < s.rows ? m : s.rows - 1) * s.pitch;
        }
        tile_dots(a, b, half, s.quads, dots);
        if (half == 1) {
#pragma unroll
          for (int i = 0; i < 16; ++i) odd[i * tiles.threads + own] = dots[i];
        }
      }
      __syncthreads();
      if (active && half == 0) {
        const unsigned q = tile - first;
#pragma unroll
        for (unsigned i = 0; i < 16; ++i) {
          const std::size_t n = p + i / 4 * tiles.groups, m = q + i % 4 * tiles.groups;
          // A tile on the diagonal meets every pair twice, and rows with themselves.
          if (n >= s.rows || m >= s.rows || (p == q && n <= m)) continue;
          pairs[n > m ? interaction_pair(n, m) : interaction_pair(m, n)] =
              dots[i] + odd[i * tiles.threads + own];
        }
      }
      __syncthreads();
    }
    T* out = y.at(sample, 0);
    if (y_packs) {
      for (std::size_t i = threadIdx.x; i < s.quads; i += blockDim.x) {
        store_narrowed<4>(out + i * 4, load_pack<4>(x + i * 4));
      }
      const std::size_t quads = (pair_count + 1) / 4;
      for (std::size_t i = threadIdx.x; i < quads; i += blockDim.x) {
        store_narrowed<4>(out + s.width + i * 4, load_pack<4>(pairs + i * 4));
      }
      for (std::size_t i = quads * 4 + threadIdx.x; i <= pair_count; i += blockDim.x) {
        out[s.width + i] = narrow<T>(pairs[i]);
      }
    } else {
      for (std::size_t i = threadIdx.x; i < s.width; i += blockDim.x) out[i] = narrow<T>(x[i]);
      for (std::size_t i = threadIdx.x; i <= pair_count; i += blockDim.x) {
        out[s.width + i] = narrow<T>(pairs[i]);
      }
    }
    __syncthreads();  // before the next sample overwrites X and the pairs
  }
}

// The same through the caches, for samples too large for shared memory: a warp a pair.
template <class T>
__global__ void __launch_bounds__(256) interaction_forward_large(Samples<T> s, Rows<T> y) {
  const std::size_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (std::size_t sample = blockIdx.x; sample < s.batch; sample += gridDim.x) {
    T* out = y.at(sample, 0);
    const T* mlp = row_of(s, sample, 0);
    for (std::size_t i = threadIdx.x; i < s.width; i += blockDim.x) out[i] = mlp[i];
    for (std::size_t n = 1; n < s.rows; ++n) {
      const T* a = row_of(s, sample, n);
      for (std::size_t m = warp; m < n; m += warps) {
        const T* b = row_of(s, sample, m);
        float dot = 0.0f;
        for (std::size_t j = lane; j < s.width; j += 32) dot += widen(a[j]) * widen(b[j]);
        dot = group_sum<32>(dot);
        if (lane == 0) out[s.width + interaction_pair(n, m)] = narrow<T>(dot);
      }
    }
    if (threadIdx.x == 0) out[s.width + s.rows * (s.rows - 1) / 2] = T{};
  }
}

template <class T>
void run_forward(const OpContext& ctx, const InteractionFwd& op) {
  const auto s = samples_of<T>(op.mlp, op.emb);
  const PairTiles tiles = pair_tiles(s.rows);
  const std::size_t pairs = s.rows * (s.rows - 1) / 2 + 1;
  const std::size_t floats =
      s.rows * s.pitch + (pairs + 3) / 4 * 4 + std::size_t{16} * tiles.threads;
  const auto y = rows_of<T>(op.y);
  if (floats * sizeof(float) > kMostShared) {
    launch(ctx, InteractionFwd::kName, dim3(grid_for(s.batch, 1)), dim3(256), 0,
           &interaction_forward_large<T>, s, y);
    return;
  }
  launch(ctx, InteractionFwd::kName, dim3(grid_for(s.batch, 1)), dim3(2 * tiles.threads),
         floats * sizeof(float), &interaction_forward<T>, s, tiles, y,
         s.width % 4 == 0 && fits<T>(op.y));
}

constexpr int kOutRows = 8;  // rows of dX that a thread makes, four columns each

/// dX in shared memory terms: g is symmetric with zeros on the diagonal, `g_pitch` floats a row.
struct BackwardTiles {
  std::size_t g_pitch = 0;  ///< T rounded up to kOutRows
  std::size_t row_tiles = 0;
  FastDivide by_quads;
  bool out_packs = false;
};

// Adds `add` (null: nothing) to four columns and stores those that exist.
template <class T>
__device__ void store_columns(T* out, Pack<float, 4> value, const T* add, std::size_t count,
                              bool packs) {
  if (add != nullptr) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k < count) value.v[k] += widen(add[k]);
    }
  }
  if (packs) {
    store_narrowed<4>(out, value);
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (k < count) out[k] = narrow<T>(value.v[k]);
  }
}

// A block takes a sample at a time: X, then g from the pairs of dy, then 8 x 4 elements of dX a
// thread. Moves 2 T w + w + T(T-1)/2 elements and does 2 T T w FLOPs a sample.
template <class T>
__global__ void __launch_bounds__(256)
    interaction_backward(Samples<T> s, BackwardTiles tiles, Rows<const T> dy, Rows<T> dmlp,
                         Rows<T> demb) {
  extern __shared__ __align__(16) float shared[];
  float* x = shared;
  float* g = x + s.rows * s.pitch;  // rows x g_pitch
  float* pairs = g + s.rows * tiles.g_pitch;
  const std::size_t pair_count = s.rows * (s.rows - 1) / 2;
  clear_padding(s, x);
  for (std::size_t i = threadIdx.x; i < s.rows * tiles.g_pitch; i += blockDim.x) g[i] = 0.0f;
  for (std::size_t sample = blockIdx.x; sample < s.batch; sample += gridDim.x) {
    const T* gradient = dy.at(sample, 0);
    for (std::size_t i = threadIdx.x; i < pair_count; i += blockDim.x) {
      if constexpr (std::is_same_v<T, float>) {
        __pipeline_memcpy_async(pairs + i, gradient + s.width + i, 4);
      } else {
        pairs[i] = widen(gradient[s.width + i]);
      }
    }
    __pipeline_commit();
    begin_copy(s, sample, x);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();  // the pairs are there, and g is zero
    const std::size_t warps = blockDim.x / 32;
    for (std::size_t n = 1 + threadIdx.x / 32; n < s.rows; n += warps) {
      for (std::size_t m = threadIdx.x % 32; m < n; m += 32) {
        const float value = pairs[interaction_pair(n, m)];
        g[n * tiles.g_pitch + m] = value;
        g[m * tiles.g_pitch + n] = value;
      }
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    for (std::size_t item = threadIdx.x; item < tiles.row_tiles * s.quads; item += blockDim.x) {
      std::size_t quad;
      const std::size_t n0 = tiles.by_quads.divide(item, quad) * kOutRows;
      Pack<float, 4> total[kOutRows] = {};
      for (std::size_t m = 0; m < s.rows; ++m) {
        const Pack<float, 4> v = load_pack<4>(x + m * s.pitch + quad * 4);
        const Pack<float, 4> low = load_pack<4>(g + m * tiles.g_pitch + n0);
        const Pack<float, 4> high = load_pack<4>(g + m * tiles.g_pitch + n0 + 4);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            total[r].v[k] += low.v[r] * v.v[k];
            total[r + 4].v[k] += high.v[r] * v.v[k];
          }
        }
      }
      const std::size_t column = quad * 4;
      const std::size_t count = s.width - column < 4 ? s.width - column : 4;
#pragma unroll
      for (int r = 0; r < kOutRows; ++r) {
        const std::size_t n = n0 + r;
        if (n == 0) {
          if (dmlp.data == nullptr) continue;
          store_columns<T>(dmlp.at(sample, column), total[r], gradient + column, count,
                           tiles.out_packs);
        } else if (n < s.rows && demb.data != nullptr) {
          store_columns<T>(demb.at(sample, (n - 1) * s.width + column), total[r], nullptr, count,
                           tiles.out_packs);
        }
      }
    }
    __syncthreads();  // before the next sample overwrites X, g and the pairs
  }
}

// The same through the caches: a thread an element of dX.
template <class T>
__global__ void __launch_bounds__(256)
    interaction_backward_large(Samples<T> s, FastDivide by_width, Rows<const T> dy, Rows<T> dmlp,
                               Rows<T> demb) {
  const std::size_t begin = dmlp.data == nullptr ? s.width : 0;
  const std::size_t end = demb.data == nullptr ? s.width : s.rows * s.width;
  for (std::size_t sample = blockIdx.x; sample < s.batch; sample += gridDim.x) {
    const T* pairs = dy.at(sample, s.width);
    for (std::size_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
      std::size_t j;
      const std::size_t n = by_width.divide(i, j);
      float total = 0.0f;
      for (std::size_t m = 0; m < n; ++m) {
        total += widen(pairs[interaction_pair(n, m)]) * widen(row_of(s, sample, m)[j]);
      }
      for (std::size_t m = n + 1; m < s.rows; ++m) {
        total += widen(pairs[interaction_pair(m, n)]) * widen(row_of(s, sample, m)[j]);
      }
      if (n == 0) {
        *dmlp.at(sample, j) = narrow<T>(total + widen(*dy.at(sample, j)));
      } else {
        *demb.at(sample, i - s.width) = narrow<T>(total);
      }
    }
  }
}

template <class T>
void run_backward(const OpContext& ctx, const InteractionBwd& op) {
  const auto s = samples_of<T>(op.mlp, op.emb);
  const auto dy = rows_of<const T>(op.dy);
  const auto dmlp = rows_of<T>(op.dmlp), demb = rows_of<T>(op.demb);
  BackwardTiles tiles;
  tiles.g_pitch = (s.rows + kOutRows - 1) / kOutRows * kOutRows;
  tiles.row_tiles = op.demb.empty() ? 1 : tiles.g_pitch / kOutRows;
  tiles.by_quads = FastDivide(s.quads);
  tiles.out_packs = s.width % 4 == 0 && fits<T>(op.dmlp) && fits<T>(op.demb);
  const std::size_t floats = s.rows * s.pitch + s.rows * tiles.g_pitch + s.rows * (s.rows - 1) / 2;
  const dim3 grid(grid_for(s.batch, 1));
  if (floats * sizeof(float) > kMostShared) {
    launch(ctx, InteractionBwd::kName, grid, dim3(256), 0, &interaction_backward_large<T>, s,
           FastDivide(s.width), dy, dmlp, demb);
    return;
  }
  const std::size_t items = tiles.row_tiles * s.quads;
  const auto threads = static_cast<unsigned>(std::min<std::size_t>(256, (items + 31) / 32 * 32));
  launch(ctx, InteractionBwd::kName, grid, dim3(threads), floats * sizeof(float),
         &interaction_backward<T>, s, tiles, dy, dmlp, demb);
}

}  // namespace

void interaction_fwd_plain(const OpContext& context, const InteractionFwd& op) {
  with_real_type(op.y.dtype, [&]<class T>(T) { run_forward<T>(context, op); });
}

void interaction_bwd_plain(const OpContext& context, const InteractionBwd& op) {
  with_real_type(op.dy.dtype, [&]<class T>(T) { run_backward<T>(context, op); });
}

}  // namespace hugectr::cuda
