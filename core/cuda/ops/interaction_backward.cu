// SPDX-License-Identifier: Apache-2.0
#include <cuda_pipeline.h>

#include <cstdint>

#include "core/cuda/ops/interaction.hpp"
#include "core/cuda/ops/interaction_rows.cuh"
#include "core/cuda/primitives/mma.cuh"
#include "core/cuda/primitives/real.cuh"
#include "core/cuda/primitives/stream_words.cuh"

// The backward pass on tensor cores: dX = G X, a warp a sample. Rows come into shared memory a
// unit ahead of the work, by copies that need no registers; results go from registers to global
// memory. A unit is a sample, or up to 128 columns of one.
//
// The product contracts over the rows of X. Lane (g, t) takes kV neighbouring columns of rows t,
// t + 4, t + 8, t + 12 of every 16 (eight lanes that read at once then meet all banks) and pairs
// the rows up: that makes the right factor of kV products, product e holding column e of every
// lane's columns. Their sums in a lane are kV neighbouring columns again, for the store.
//
// G comes from the pairs of dy, laid out in shared memory as its lower triangle: a 16 x 16 tile of
// G is a tile of the triangle, its transpose, or on the diagonal both.
namespace hugectr::cuda {
namespace {

constexpr unsigned kWarps = 4;  // of a block

/// Where row r of 16 stands in the tiles of G, so that products meet the rows of X as loaded.
__host__ __device__ constexpr unsigned place_of(unsigned r) {
  return r % 4 * 2 + r / 4 % 2 + r / 8 * 8;
}
/// The row that stands at g, for g < 8; and the columns that lane group g takes: the sums of a
/// product are its columns 2t and 2t + 1 in lane t, and so the lanes of a row store neighbours.
__device__ inline unsigned part_of(unsigned g) { return g / 2 + g % 2 * 4; }

/// What a warp keeps in shared memory: the lower triangle of G, kTiles * 16 rows, zero elsewhere.
template <int kTiles>
struct Triangle {
  static constexpr unsigned kRows = 16 * kTiles;
  static constexpr unsigned kPitch = kRows + 8;  // 8 rows lie in different banks
  static constexpr unsigned kSize = kRows * kPitch;
  static constexpr int kWords = (kRows * (kRows - 1) / 2 + 64) / 64;  // of pairs, in every lane
};

/// Columns of a unit, and how its rows lie in shared memory.
template <int kV, int kBlocks>
struct Unit {
  static constexpr unsigned kColumns = 8 * kV * kBlocks;
  static constexpr unsigned kPitch = kColumns + 8;  // an odd number of 16 bytes
};

/// What a warp copies next: columns `column` .. of X of a sample, and of the gradient that reaches
/// mlp past the pairs, as one more row.
template <class T>
struct CopyAhead {
  const T *mlp, *slots, *dy;  ///< of the sample
  unsigned sample, column;
};

template <class T, int kTiles, int kV, int kBlocks>
__device__ void begin_copy(T* unit, const SampleRows<T>& rows, const CopyAhead<T>& next,
                           bool dy_packs) {
  constexpr unsigned kLanesPerRow = kV * kBlocks, kRowsAtOnce = 32 / kLanesPerRow;
  constexpr unsigned kPitch = Unit<kV, kBlocks>::kPitch;
  const unsigned row = threadIdx.x % 32 / kLanesPerRow;
  const unsigned at = threadIdx.x % kLanesPerRow * 8, column = next.column + at;
  const bool there = column < rows.width;
  const unsigned to = shared_address(unit + row * kPitch + at);
  const T* from = next.slots + column + row * rows.width - rows.width;
  const T* first = row == 0 ? next.mlp + column : from;
#pragma unroll
  for (unsigned i = 0; i < 16 * kTiles / kRowsAtOnce; ++i) {
    copy_ahead_if(to + i * kRowsAtOnce * kPitch * sizeof(T), i == 0 ? first : from,
                  there && i * kRowsAtOnce + row < rows.count);
    from += kRowsAtOnce * rows.width;
  }
  T* const last = unit + rows.count * kPitch + at;
  if (dy_packs) {
    copy_ahead_if(shared_address(last), next.dy + column, there && row == 0);
  } else if (there && row == 0) {
#pragma unroll
    for (int i = 0; i < 8; ++i) last[i] = next.dy[column + i];
  }
}

/// The words of dy that hold the pairs of a sample, and where they go. A row of dy may begin in the
/// middle of a word: then the first one ends with the first pair.
template <int kTiles>
struct PairWords {
  using Shape = Triangle<kTiles>;
  unsigned words[Shape::kWords];  ///< lane, lane + 32, ..
  bool in_the_middle;

  template <class T>
  __device__ void load(const T* pairs, unsigned count) {
    const unsigned lane = threadIdx.x % 32;
    in_the_middle = reinterpret_cast<std::uintptr_t>(pairs) % 4 != 0;
    const T* from = pairs - in_the_middle + 2 * lane;
#pragma unroll
    for (int i = 0; i < Shape::kWords; ++i) {
      load_words_if(reinterpret_cast<unsigned (&)[1]>(words[i]), from + 64 * i,
                    64 * i + 2 * lane < count + in_the_middle);
    }
  }

  // places: see prepare_triangles().
  __device__ void lay_out(unsigned triangle, const unsigned* places) const {
    places += in_the_middle * (32 * Shape::kWords) + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < Shape::kWords; ++i) {
      const unsigned two = places[32 * i];
      store_shared_half(triangle + (two & 0xFFFF), words[i]);
      store_shared_half(triangle + (two >> 16), words[i] >> 16);
    }
  }
};

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

// The right factors: b[k][e] for rows 16 k .. and column e of every lane's columns. `x` points to
// the lane's columns of its first row.
template <class T, int kTiles, int kV, int kPitch>
__device__ void load_factors(unsigned (&b)[kTiles][kV][2], const T* x, unsigned rows) {
  constexpr unsigned kFewestRows = kTiles / 2 * 16 + 1;  // fewer take fewer tiles
  const unsigned t = threadIdx.x % 4;
#pragma unroll
  for (int k = 0; k < kTiles; ++k) {
    Pack<unsigned, kV / 2> q[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned n = 16 * k + 4 * i;
      q[i] = {};
      if (n + 4 <= kFewestRows || n + t < rows) {
        q[i] = *reinterpret_cast<const Pack<unsigned, kV / 2>*>(x + n * kPitch);
      }
    }
#pragma unroll
    for (int w = 0; w < kV / 2; ++w) {
      b[k][2 * w][0] = low_halves(q[0].v[w], q[1].v[w]);
      b[k][2 * w][1] = low_halves(q[2].v[w], q[3].v[w]);
      b[k][2 * w + 1][0] = high_halves(q[0].v[w], q[1].v[w]);
      b[k][2 * w + 1][1] = high_halves(q[2].v[w], q[3].v[w]);
    }
  }
}

/// Where the results of a lane go: rows 16 m + 8 r + part_of(g), at [2 m + r].
template <class T, int kTiles>
struct LaneResults {
  T *mlp, *slots;  ///< of the sample, at the lane's columns
  unsigned bytes[2 * kTiles];
  bool wanted[2 * kTiles];
};

// dX of 8 kV columns, of which `columns_left` are there. direct: the gradient that reaches mlp past
// the pairs, at the lane's columns.
template <class T, int kTiles, int kV>
__device__ void multiply_columns(const unsigned (&b)[kTiles][kV][2], const T* triangle,
                                 const T* direct, const LaneResults<T, kTiles>& results,
                                 unsigned block_column, unsigned columns_left) {
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    unsigned a[kTiles][4];
    load_gradients<T, kTiles>(a, triangle, m);
    float sums[kV][4] = {};
    if (m == 0) {
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        Pack<T, kV> row = {};
        if (g == 0) row = load_pack<kV>(direct + 4 * side * kV);
#pragma unroll
        for (int e = 0; e < kV; ++e) sums[e][side] = widen(row.v[e]);
      }
    }
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
      const int at = 2 * m + r;
      T* const start = at == 0 && g == 0 ? results.mlp : results.slots;
      T* const row =
          reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(start) + results.bytes[at]);
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        unsigned words[kV / 2];
#pragma unroll
        for (int w = 0; w < kV / 2; ++w) {
          words[w] = narrow_two<T>(sums[2 * w][2 * r + side], sums[2 * w + 1][2 * r + side]);
        }
        store_words_if(row + block_column + 4 * side * kV, words,
                       results.wanted[at] && (t + 4 * side) * kV < columns_left);
      }
    }
  }
}

// places: for every word of pairs where its halves go in the triangle, in bytes: first for rows of
// dy whose pairs begin with a word, then for the others. What is no pair goes where nobody reads.
template <class T, int kTiles>
__device__ void prepare_triangles(unsigned* places, T* triangles, unsigned rows) {
  using Shape = Triangle<kTiles>;
  constexpr unsigned kWords = 32 * Shape::kWords, kNowhere = Shape::kRows * sizeof(T);
  for (unsigned i = threadIdx.x; i < kWarps * Shape::kSize; i += blockDim.x) triangles[i] = T{};
  auto* const halves = reinterpret_cast<unsigned short*>(places);
  for (unsigned i = threadIdx.x; i < 4 * kWords; i += blockDim.x) halves[i] = kNowhere;
  __syncthreads();
  for (unsigned i = threadIdx.x; i < Shape::kRows * Shape::kRows; i += blockDim.x) {
    const unsigned n = i / Shape::kRows, m = i % Shape::kRows;
    if (n <= m || n >= rows) continue;
    const unsigned row = n / 16 * 16 + place_of(n % 16), column = m / 16 * 16 + place_of(m % 16);
    const unsigned pair = n * (n - 1) / 2 + m;
    const auto place = static_cast<unsigned short>((row * Shape::kPitch + column) * sizeof(T));
    halves[pair] = halves[2 * kWords + pair + 1] = place;
  }
  __syncthreads();
}

/// The gradients of an op.
template <class T>
struct Gradients {
  Rows<const T> dy;
  Rows<T> dmlp, demb;
  bool dy_packs;  ///< dy may be read 16 bytes at a time
};

// Blocks that a multiprocessor is to hold: what keeps the compiler from more registers.
constexpr int blocks_per_processor(int tiles, int columns_of_a_lane, int blocks_of_a_unit) {
  if (tiles > 2) return tiles == 3 ? 3 : 2;
  if (blocks_of_a_unit > 1) return 3;
  return columns_of_a_lane == 8 ? 4 : 5;
}

// Moves 2 (2 T w + w + T (T - 1) / 2) bytes a sample. One unit is under way while a warp works on
// one. kOne: a row is one unit.
template <class T, int kTiles, int kV, int kBlocks, bool kOne>
__global__ void __launch_bounds__(32 * kWarps, blocks_per_processor(kTiles, kV, kBlocks))
    backward_kernel(SampleRows<T> rows, Gradients<T> op) {
  using Shape = Triangle<kTiles>;
  constexpr unsigned kPitch = Unit<kV, kBlocks>::kPitch, kColumns = Unit<kV, kBlocks>::kColumns;
  extern __shared__ __align__(16) unsigned char shared[];
  const unsigned warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  T* const triangles = reinterpret_cast<T*>(shared);
  auto* const places = reinterpret_cast<unsigned*>(triangles + kWarps * Shape::kSize);
  const unsigned unit_size = (rows.count + 1) * kPitch;
  T* const units = reinterpret_cast<T*>(places + 64 * Shape::kWords) + warp * 2 * unit_size;
  T* const triangle = triangles + warp * Shape::kSize;
  prepare_triangles<T, kTiles>(places, triangles, rows.count);
  const unsigned count = rows.count * (rows.count - 1) / 2, step = gridDim.x * kWarps;
  unsigned sample = blockIdx.x * kWarps + warp;
  CopyAhead<T> next{rows.mlp.at(sample, 0), rows.emb.at(sample, 0), op.dy.at(sample, 0), sample, 0};
  T* into = units;
  const auto copy_ahead = [&] {
    if (next.sample < rows.batch) {
      begin_copy<T, kTiles, kV, kBlocks>(into, rows, next, op.dy_packs);
    }
    __pipeline_commit();
    into = into == units ? units + unit_size : units;
    if constexpr (!kOne) {
      next.column += kColumns;
      if (next.column < rows.width) return;
      next.column = 0;
    }
    next.sample += step;
    next.mlp += step * rows.mlp.stride;
    next.slots += step * rows.emb.stride;
    next.dy += step * op.dy.stride;
  };
  LaneResults<T, kTiles> results{op.dmlp.at(sample, t * kV), op.demb.at(sample, t * kV), {}, {}};
#pragma unroll
  for (unsigned i = 0; i < 2 * kTiles; ++i) {
    const unsigned n = 8 * i + part_of(g);
    results.bytes[i] = n == 0 ? 0 : (n - 1) * rows.width * sizeof(T);
    results.wanted[i] = n < rows.count && (n == 0 ? op.dmlp.data : op.demb.data) != nullptr;
  }
  const T* pairs_from = op.dy.at(sample, rows.width);
  PairWords<kTiles> pairs;
  if (sample < rows.batch) pairs.load(pairs_from, count);
  copy_ahead();
  const T* unit = units;
  for (; sample < rows.batch; sample += step) {
    __syncwarp();
    pairs.lay_out(shared_address(triangle), places);
    pairs_from += step * op.dy.stride;
    if (sample + step < rows.batch) pairs.load(pairs_from, count);
    for (unsigned first = 0; first < rows.width; first += kColumns) {
      __pipeline_wait_prior(0);
      __syncwarp();  // the unit and the triangle are there; the unit before is done with
      copy_ahead();
#pragma unroll 1  // or it holds the registers of all blocks at once
      for (unsigned column = 0; column < kColumns; column += 8 * kV) {
        const unsigned left = kOne ? 8 * kV : rows.width - first - column;
        if (!kOne && first + column >= rows.width) break;
        unsigned b[kTiles][kV][2];
        load_factors<T, kTiles, kV, kPitch>(b, unit + t * kPitch + part_of(g) * kV + column,
                                            rows.count);
        multiply_columns<T, kTiles, kV>(b, triangle, unit + rows.count * kPitch + t * kV + column,
                                        results, first + column, left);
      }
      unit = unit == units ? units + unit_size : units;
      if constexpr (kOne) break;
    }
    results.mlp += step * op.dmlp.stride;
    results.slots += step * op.demb.stride;
  }
}

template <class T>
struct BackwardKernel {
  void (*kernel)(SampleRows<T>, Gradients<T>) = nullptr;
  std::size_t shared_bytes = 0;
};

template <class T, int kTiles, int kV, int kBlocks>
BackwardKernel<T> kernel_with(std::size_t rows, unsigned width) {
  using Shape = Triangle<kTiles>;
  const std::size_t elements = kWarps * Shape::kSize + 128 * Shape::kWords +
                               2 * kWarps * (rows + 1) * Unit<kV, kBlocks>::kPitch;
  return {width == Unit<kV, kBlocks>::kColumns ? &backward_kernel<T, kTiles, kV, kBlocks, true>
                                               : &backward_kernel<T, kTiles, kV, kBlocks, false>,
          elements * sizeof(T)};
}

template <class T, int kTiles>
BackwardKernel<T> kernel_for(std::size_t rows, unsigned width) {
  if (width <= 16) return kernel_with<T, kTiles, 2, 1>(rows, width);
  if (width <= 32) return kernel_with<T, kTiles, 4, 1>(rows, width);
  if constexpr (kTiles <= 2) {
    if (width <= 64) return kernel_with<T, kTiles, 8, 1>(rows, width);
    return kernel_with<T, kTiles, 8, 2>(rows, width);
  } else {  // many rows: fewer columns, so that registers and shared memory serve more warps
    return kernel_with<T, kTiles, 4, 2>(rows, width);
  }
}

template <class T>
BackwardKernel<T> kernel_for(std::size_t rows, unsigned width) {
  if (rows <= 16) return kernel_for<T, 1>(rows, width);
  if (rows <= 32) return kernel_for<T, 2>(rows, width);
  if (rows <= 48) return kernel_for<T, 3>(rows, width);
  return kernel_for<T, 4>(rows, width);
}

template <class T>
bool run_backward(const OpContext& context, const InteractionBwd& op) {
  const auto rows = tensor_core_rows<T>(op.mlp, op.emb);
  if (rows.count == 0 || !whole_packs<T>(op.dmlp) || !whole_packs<T>(op.demb)) return false;
  const bool fits = packs_fit(op.dy.ptr<T>(), op.dy.rows() > 1 ? op.dy.row_stride : 0, 8);
  const Gradients<T> gradients{rows_of<const T>(op.dy), rows_of<T>(op.dmlp), rows_of<T>(op.demb),
                               fits};
  const BackwardKernel<T> chosen = kernel_for<T>(rows.count, rows.width);
  launch(context, InteractionBwd::kName, dim3(grid_for(rows.batch, kWarps)), dim3(32 * kWarps),
         chosen.shared_bytes, chosen.kernel, rows, gradients);
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
