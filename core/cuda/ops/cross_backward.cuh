// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>

#include "core/cuda/ops/cross_weights.cuh"
#include "core/cuda/primitives/async_copy.cuh"
#include "core/cuda/primitives/row_tail.cuh"

/// The backward of MultiCross in one pass over x and dy, for the shapes that networks have: a block
/// takes a piece of the batch, brings its rows into shared memory a few tiles ahead, and
///   1. a warp takes dy . x of a row, from which a lane makes the scalars of that sample;
///   2. a thread takes two columns (or four times two) of all rows: their w and their sums over
///      the piece stay in its registers.
namespace hugectr {
namespace {

constexpr unsigned kStagedThreads = 448;  // at most; a pair of columns each, or kPairs of them
constexpr int kStages = 2;                // tiles in shared memory
constexpr unsigned kRowsOfWarp = 2;       // of a tile, at most
constexpr std::size_t kStageBytesOfThread = 108;

template <class T>
struct StagedBackward {
  std::size_t rows, samples;  // of the batch, of a piece
  unsigned tile;              // rows of a tile
  cuda::Rows<const T> x, dy;
  cuda::Rows<T> dx;  // no data: not wanted
  const float* dots;
  float* partial;
  CrossWeights weights;
};

/// Elements of a row in shared memory.
template <class T>
__host__ __device__ unsigned staged_pitch(unsigned n) {
  return (n + cuda::kPack<T> - 1) / cuda::kPack<T> * cuda::kPack<T>;
}

/// What phase 1 leaves of a sample: c_L, then a_{l+1} c_l of every layer.
template <int kLayers>
inline constexpr int kScalars = (1 + kLayers + 3) / 4 * 4;

/// Shared memory of a block: tiles of x, of dy and of dots, and the scalars of two tiles.
template <class T, int kLayers>
struct StagedMemory {
  unsigned tile, pitch;
  unsigned char* memory;

  __host__ __device__ std::size_t rows_bytes() const {
    return std::size_t{2} * kStages * tile * pitch * sizeof(T);
  }
  __host__ __device__ std::size_t scalars_bytes() const {
    return std::size_t{2} * tile * kScalars<kLayers> * sizeof(float);
  }
  std::size_t bytes() const {
    return rows_bytes() + scalars_bytes() + kStages * tile * kLayers * sizeof(float);
  }
  /// Row of x (0) or dy (1) in a stage.
  __device__ T* row(unsigned stage, unsigned which, unsigned r) const {
    return reinterpret_cast<T*>(memory) + ((stage * 2 + which) * tile + r) * pitch;
  }
  __device__ float* scalars(unsigned parity, unsigned r) const {
    return reinterpret_cast<float*>(memory + rows_bytes()) +
           (parity * tile + r) * kScalars<kLayers>;
  }
  __device__ float* dots(unsigned stage, unsigned r) const {
    return reinterpret_cast<float*>(memory + rows_bytes() + scalars_bytes()) +
           (stage * tile + r) * kLayers;
  }
};

/// Starts the copies of a tile. Every warp brings the rows whose scalars it will make, every lane
/// the packs that it will multiply.
template <class T, int kCopy, class Memory>
__device__ void start_tile(const StagedBackward<T>& op, const Memory& memory, unsigned stage,
                           std::size_t first, std::size_t end) {
  const unsigned lane = threadIdx.x % 32, n = op.weights.n, layers = op.weights.layers;
#pragma unroll
  for (unsigned i = 0; i < kRowsOfWarp; ++i) {
    const unsigned r = threadIdx.x / 32 + i * (blockDim.x / 32);
    const std::size_t row = first + r;
    if (r >= op.tile || row >= end) break;
    const T *x = op.x.at(row, 0), *dy = op.dy.at(row, 0);
    T *to_x = memory.row(stage, 0, r), *to_dy = memory.row(stage, 1, r);
    if constexpr (kCopy == 16) {
      const bool last = row + 1 == op.rows;
      for (unsigned j = lane * cuda::kPack<T>; j < n; j += 32 * cuda::kPack<T>) {
        cuda::copy_row_pack_async(to_x + j, x, j, n, last);
        cuda::copy_row_pack_async(to_dy + j, dy, j, n, last);
      }
    } else {
      for (unsigned j = lane; j < n; j += 32) {
        cuda::copy_4_async(to_x + j, x + j);
        cuda::copy_4_async(to_dy + j, dy + j);
      }
    }
    if (lane < layers) {
      cuda::copy_4_async(memory.dots(stage, r) + lane, op.dots + row * layers + lane);
    }
  }
  cuda::end_copy_group();
}

/// This lane's part of the dot product of two rows in shared memory.
template <class T>
__device__ float dot_of_lane(const T* x, const T* dy, unsigned n) {
  float even = 0.0f, odd = 0.0f;
#pragma unroll 2
  for (unsigned j = threadIdx.x % 32 * cuda::kPack<T>; j < n; j += 32 * cuda::kPack<T>) {
    const auto u = cuda::PackWords<T>::load(x + j).widened();
    const auto v = cuda::PackWords<T>::load(dy + j).widened();
#pragma unroll
    for (int k = 0; k < cuda::kPack<T>; k += 2) {
      even += u.v[k] * v.v[k];
      odd += u.v[k + 1] * v.v[k + 1];
    }
  }
  return even + odd;
}

/// The scalars of a sample from a_L; adds every a_{l+1} to sum_a. Layers that are not there have no
/// weights: what they get here changes nothing.
template <int kLayers>
__device__ void make_scalars(unsigned layers, const float* offset, const float* dots, float a,
                             float* scalars, float (&sum_a)[kLayers]) {
  float c = 1.0f, dot[kLayers], made[kScalars<kLayers>] = {};
#pragma unroll
  for (int l = 0; l < kLayers; ++l) {
    dot[l] = l < layers ? dots[l] : 0.0f;
    made[1 + l] = c;
    c = cross_scale_next(c, dot[l], offset[l]);
  }
  made[0] = c;
#pragma unroll
  for (int l = kLayers - 1; l >= 0; --l) {
    made[1 + l] *= a;
    sum_a[l] += a;
    a += a * dot[l];
  }
#pragma unroll
  for (int k = 0; k < kScalars<kLayers>; k += 4) {
    *reinterpret_cast<float4*>(scalars + k) =
        make_float4(made[k], made[k + 1], made[k + 2], made[k + 3]);
  }
}

template <class T>
__device__ cuda::Pack<float, 2> load_pair(const T* p) {
  if constexpr (sizeof(T) == 4) {
    return cuda::load_pack<2>(p);
  } else {
    return cuda::widen_word<T>(*reinterpret_cast<const unsigned*>(p));
  }
}

template <class T>
__device__ void store_pair(T* p, float first, float second) {
  if constexpr (sizeof(T) == 4) {
    *reinterpret_cast<float2*>(p) = make_float2(first, second);
  } else {
    *reinterpret_cast<unsigned*>(p) = cuda::narrow_word<T>(first, second);
  }
}

/// Two neighbouring columns of a thread, over the rows of a piece.
template <int kLayers>
struct ColumnPair {
  float w[kLayers][2], dw[kLayers][2], dy[2];

  /// Adds a row of the sums; dx of it.
  __device__ cuda::Pack<float, 2> add_row(const float* scalars_at, const cuda::Pack<float, 2>& x,
                                          const cuda::Pack<float, 2>& g) {
    float scalars[kScalars<kLayers>];
#pragma unroll
    for (int k = 0; k < kScalars<kLayers>; k += 4) {
      const float4 four = *reinterpret_cast<const float4*>(scalars_at + k);
      scalars[k] = four.x, scalars[k + 1] = four.y;
      scalars[k + 2] = four.z, scalars[k + 3] = four.w;
    }
    cuda::Pack<float, 2> dx;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      dx.v[i] = scalars[0] * g.v[i];
      dy[i] += g.v[i];
#pragma unroll
      for (int l = 0; l < kLayers; ++l) {
        dx.v[i] += scalars[1 + l] * w[l][i];
        dw[l][i] += scalars[1 + l] * x.v[i];
      }
    }
    return dx;
  }
};

// Moves 3 ne + 4L bytes a sample and 4 ((L + 1) n + L) a piece.
template <class T, int kLayers, int kPairs, int kCopy>
__global__ void __launch_bounds__(kStagedThreads, kPairs == 1 && kLayers <= 6 ? 2 : 1)
    cross_backward(const __grid_constant__ StagedBackward<T> op) {
  extern __shared__ float4 tile_memory[];
  __shared__ double of_warps[kStagedThreads / 32][kLayers];
  __shared__ float offset[kLayers];
  const unsigned layers = op.weights.layers, n = op.weights.n;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const StagedMemory<T, kLayers> memory{op.tile, staged_pitch<T>(n),
                                        reinterpret_cast<unsigned char*>(tile_memory)};
  const std::size_t begin = blockIdx.x * op.samples, end = std::min(begin + op.samples, op.rows);

  // What no copy writes must not be NaN: columns behind a row.
  for (unsigned r = threadIdx.x; r < 2 * kStages * op.tile; r += blockDim.x) {
    for (unsigned j = n; kCopy != 16 && j < memory.pitch; ++j) memory.row(0, 0, r)[j] = T{};
  }
#pragma unroll
  for (unsigned stage = 0; stage + 1 < kStages; ++stage) {
    start_tile<T, kCopy>(op, memory, stage, begin + stage * op.tile, end);
  }

  ColumnPair<kLayers> pairs[kPairs];
  {
    double dot[kLayers] = {};  // of B_l and w_l
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const unsigned j = 2 * (threadIdx.x + p * blockDim.x) + i;
        float bias = 0.0f;
        pairs[p].dy[i] = 0.0f;
#pragma unroll
        for (int l = 0; l < kLayers; ++l) {
          const bool there = l < layers && j < n;
          pairs[p].dw[l][i] = 0.0f;
          pairs[p].w[l][i] = there ? op.weights.w[l][j] : 0.0f;
          dot[l] += static_cast<double>(bias) * static_cast<double>(pairs[p].w[l][i]);
          if (there) bias += op.weights.b[l][j];
        }
      }
    }
#pragma unroll
    for (int l = 0; l < kLayers; ++l) {
      dot[l] = cuda::group_sum<32>(dot[l]);
      if (lane == 0) of_warps[warp][l] = dot[l];
    }
    __syncthreads();
    if (threadIdx.x < kLayers) {
      double sum = 0.0;
      for (unsigned w = 0; w < warps; ++w) sum += of_warps[w][threadIdx.x];
      offset[threadIdx.x] = static_cast<float>(sum);
    }
    __syncthreads();
  }

  float sum_a[kLayers] = {};  // of the samples whose scalars this lane makes
  unsigned stage = 0, parity = 0;
  for (std::size_t first = begin; first < end; first += op.tile) {
    cuda::wait_for_copies<kStages - 2>();
    __syncwarp();
    const unsigned count = static_cast<unsigned>(std::min<std::size_t>(op.tile, end - first));
    float a[kRowsOfWarp] = {}, own = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < kRowsOfWarp; ++i) {
      const unsigned r = warp + i * warps;
      if (r < count) a[i] = dot_of_lane(memory.row(stage, 0, r), memory.row(stage, 1, r), n);
    }
#pragma unroll
    for (unsigned i = 0; i < kRowsOfWarp; ++i) {
      a[i] = cuda::group_sum<32>(a[i]);
      if (lane == i) own = a[i];
    }
    if (const unsigned r = warp + lane * warps; lane < kRowsOfWarp && r < count) {
      make_scalars<kLayers>(layers, offset, memory.dots(stage, r), own, memory.scalars(parity, r),
                            sum_a);
    }
    // Behind this barrier the tile before was used and all of this one is there.
    __syncthreads();
    start_tile<T, kCopy>(op, memory, stage == 0 ? kStages - 1 : stage - 1,
                         first + (kStages - 1) * op.tile, end);
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const unsigned j = 2 * (threadIdx.x + p * blockDim.x);
      if (j >= n) break;
      const bool whole = kCopy == 16 && j + 1 < n;
      const T *x = memory.row(stage, 0, 0) + j, *dy = memory.row(stage, 1, 0) + j;
      const float* scalars = memory.scalars(parity, 0);
      T* to = op.dx.data == nullptr ? nullptr : op.dx.at(first, j);
#pragma unroll(kPairs == 1 ? 2 : 1)
      for (unsigned r = 0; r < count; ++r) {
        const auto dx = pairs[p].add_row(scalars, load_pair(x), load_pair(dy));
        x += memory.pitch;
        dy += memory.pitch;
        scalars += kScalars<kLayers>;
        if (to == nullptr) continue;
        if (whole) {
          store_pair(to, dx.v[0], dx.v[1]);
        } else {
          to[0] = cuda::narrow<T>(dx.v[0]);
          if (j + 1 < n) to[1] = cuda::narrow<T>(dx.v[1]);
        }
        to += op.dx.stride;
      }
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;
    parity ^= 1;
  }

  float* partial = op.partial + blockIdx.x * (std::size_t{layers + 1} * n + layers);
#pragma unroll
  for (int p = 0; p < kPairs; ++p) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned j = 2 * (threadIdx.x + p * blockDim.x) + i;
      if (j >= n) break;
#pragma unroll
      for (int l = 0; l < kLayers; ++l) {
        if (l < layers) partial[static_cast<std::size_t>(l) * n + j] = pairs[p].dw[l][i];
      }
      partial[std::size_t{layers} * n + j] = pairs[p].dy[i];
    }
  }
#pragma unroll
  for (int l = 0; l < kLayers; ++l) {
    const float sum = cuda::group_sum<32>(sum_a[l]);
    if (lane == 0) of_warps[warp][l] = sum;
  }
  __syncthreads();
  if (threadIdx.x < layers) {
    double sum = 0.0;
    for (unsigned w = 0; w < warps; ++w) sum += of_warps[w][threadIdx.x];
    partial[std::size_t{layers + 1} * n + threadIdx.x] = static_cast<float>(sum);
  }
}

template <class T, int kLayers, int kPairs, int kCopy>
bool launch_staged(const OpContext& ctx, StagedBackward<T> op) {
  const unsigned n = op.weights.n;
  const unsigned threads = cuda::round_up((n + 2 * kPairs - 1) / (2 * kPairs), 32);
  const std::size_t row_bytes = 2 * staged_pitch<T>(n) * sizeof(T);
  op.tile = static_cast<unsigned>(std::clamp<std::size_t>(kStageBytesOfThread * threads / row_bytes,
                                                          1, kRowsOfWarp * threads / 32));
  const StagedMemory<T, kLayers> memory{op.tile, staged_pitch<T>(n), nullptr};
  if (memory.bytes() + 2048 > cuda::shared_bytes_of_block()) return false;
  cuda::launch(ctx, MultiCrossBwd::kName, dim3(static_cast<unsigned>(cross_pieces(op.rows))),
               dim3(threads), memory.bytes(), &cross_backward<T, kLayers, kPairs, kCopy>, op);
  return true;
}

template <class T, int kCopy>
bool choose_staged(const OpContext& ctx, const StagedBackward<T>& op) {
  const unsigned layers = op.weights.layers, n = op.weights.n;
  constexpr unsigned kNarrow = 2 * kStagedThreads;
  if (layers <= 6 && n <= kNarrow) return launch_staged<T, 6, 1, kCopy>(ctx, op);
  if (layers <= 6 && n <= 4 * kNarrow) return launch_staged<T, 6, 4, kCopy>(ctx, op);
  if (layers <= 12 && n <= kNarrow) return launch_staged<T, 12, 1, kCopy>(ctx, op);
  return false;
}

/// False when these shapes, or rows that no copy engine can bring, need the other way.
template <class T>
bool run_staged_backward(const OpContext& ctx, const MultiCrossBwd& op) {
  const StagedBackward<T> args{op.x.rows(),
                               cross_samples_per_piece(op.x.rows()),
                               0,
                               cuda::rows_of<const T>(op.x),
                               cuda::rows_of<const T>(op.dy),
                               cuda::rows_of<T>(op.dx),
                               op.dots.ptr<float>(),
                               op.partial.ptr<float>(),
                               cross_weights(op.ws, op.bs)};
  if (cuda::rows_start_aligned<T>(op.x, op.dy, op.dx)) return choose_staged<T, 16>(ctx, args);
  if constexpr (sizeof(T) == 4) return choose_staged<T, 4>(ctx, args);
  return false;
}

}  // namespace
}  // namespace hugectr
