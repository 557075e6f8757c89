// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/ops/multi_cross.hpp"
#include "core/cuda/ops/cross_any_shape.cuh"
#include "core/cuda/ops/cross_backward.cuh"
#include "core/cuda/ops/cross_finish.cuh"
#include "core/cuda/ops/cross_weights.cuh"
#include "core/cuda/primitives/row_tail.cuh"

namespace hugectr {
namespace {

using cuda::Pack;
using cuda::Rows;

constexpr int kRows = 2;       // samples of a warp: they share its loads of w
constexpr int kLayerTile = 6;  // layers whose dots are taken together
constexpr unsigned kWarps = 8;
constexpr unsigned kBlock = 32 * kWarps;
constexpr unsigned kBlocksPerProcessor = 3;

/// kRows samples of a warp. In kChunks > 0 chunks of 32 packs they stay in registers, else they are
/// read anew, from the caches, by every for_each().
template <class T, int V, int kChunks>
struct WarpRows {
  static constexpr unsigned kChunk = 32 * V;
  const T* from[kRows];
  unsigned n;
  cuda::PackWords<T> kept[kRows][std::max(kChunks, 1)];

  __device__ void load() {
    if constexpr (kChunks > 0) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const unsigned j = c * kChunk + threadIdx.x % 32 * V;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (j < n) kept[r][c] = cuda::PackWords<T>::load(from[r], j, n);
        }
      }
    }
  }
  /// f(first column, V numbers of each sample) for the packs of this lane.
  template <class F>
  __device__ void for_each(const F& f) const {
    Pack<float, V> wide[kRows];
    if constexpr (kChunks > 0) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const unsigned j = c * kChunk + threadIdx.x % 32 * V;
        if (j >= n) break;
#pragma unroll
        for (int r = 0; r < kRows; ++r) wide[r] = kept[r][c].widened();
        f(j, wide);
      }
    } else {
      for (unsigned j = threadIdx.x % 32 * V; j < n; j += kChunk) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) wide[r] = cuda::load_row_widened<V>(from[r], j, n);
        f(j, wide);
      }
    }
  }
};

template <class T>
struct CrossForward {
  std::size_t rows;
  Rows<const T> x;
  Rows<T> y;
  float* dots;
  CrossWeights weights;
  CrossTable<1> table;  // only where shared memory does not hold it
};

// sum[r][k] = x[r] . w_{first + k} in every lane.
template <int V, class Samples, class Table>
__device__ void dot_layers(const Samples& samples, const Table& table, unsigned first,
                           unsigned layers, float (&sum)[kRows][kLayerTile]) {
  samples.for_each([&](unsigned j, const Pack<float, V>(&x)[kRows]) {
#pragma unroll
    for (int k = 0; k < kLayerTile; ++k) {
      if (first + k >= layers) break;
      const Pack<float, V> w = table.w.pack(first + k, j);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int i = 0; i < V; ++i) sum[r][k] += x[r].v[i] * w.v[i];
      }
    }
  });
#pragma unroll
  for (int k = 0; k < kLayerTile; ++k) {
    if (first + k >= layers) break;
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[r][k] = cuda::group_sum<32>(sum[r][k]);
  }
}

// A warp takes kRows samples: the dots, then y. Moves 2 ne + 4L bytes a sample (n columns of e
// bytes); the weights are read once a block.
template <class T, int V, int kChunks, bool kShared>
__global__ void __launch_bounds__(kBlock, kBlocksPerProcessor)
    cross_forward(const __grid_constant__ CrossForward<T> op) {
  extern __shared__ float4 table_memory[];
  const unsigned layers = op.weights.layers, n = op.weights.n, lane = threadIdx.x % 32;
  CrossTable<V> table;
  if constexpr (kShared) {
    table = CrossTable<V>(reinterpret_cast<float*>(table_memory), layers, n);
    fill_table(op.weights, table);
  } else {
    table = op.table;
  }
  const std::size_t warp = static_cast<std::size_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  for (std::size_t first = warp * kRows; first < op.rows; first += gridDim.x * kWarps * kRows) {
    WarpRows<T, V, kChunks> samples;
    samples.n = n;
    float c[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      samples.from[r] = op.x.at(first + r < op.rows ? first + r : op.rows - 1, 0);
      c[r] = 1.0f;
    }
    samples.load();
    for (unsigned l = 0; l < layers; l += kLayerTile) {
      float sum[kRows][kLayerTile] = {};
      dot_layers<V>(samples, table, l, layers, sum);
      float own = 0.0f;
#pragma unroll
      for (int k = 0; k < kLayerTile; ++k) {
        if (l + k >= layers) break;
        const float offset = table.offset[l + k];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          c[r] = cross_scale_next(c[r], sum[r][k], offset);
          if (lane == r * kLayerTile + k) own = sum[r][k];
        }
      }
      const unsigned r = lane / kLayerTile, k = lane % kLayerTile;
      if (r < kRows && first + r < op.rows && l + k < layers) {
        op.dots[(first + r) * layers + l + k] = own;
      }
    }
    samples.for_each([&](unsigned j, const Pack<float, V>(&x)[kRows]) {
      const Pack<float, V> bias = table.bias.pack(layers, j);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (first + r >= op.rows) break;
        Pack<float, V> y;
#pragma unroll
        for (int i = 0; i < V; ++i) y.v[i] = c[r] * x[r].v[i] + bias.v[i];
        cuda::store_row_narrowed<V>(op.y.at(first + r, 0), j, n, y);
      }
    });
  }
}

template <class T, int V, int kChunks, bool kShared>
void launch_forward(const OpContext& ctx, const CrossForward<T>& op) {
  const std::size_t shared =
      kShared ? CrossTable<V>::floats(op.weights.layers, op.weights.n) * sizeof(float) : 0;
  const unsigned grid = std::min(cuda::grid_for(op.rows, kWarps * kRows),
                                 kBlocksPerProcessor * cuda::processor_count());
  cuda::launch(ctx, MultiCrossFwd::kName, dim3(grid), dim3(kBlock), shared,
               &cross_forward<T, V, kChunks, kShared>, op);
}

template <class T>
void run_forward(const OpContext& ctx, const MultiCrossFwd& op) {
  CrossForward<T> args{op.x.rows(),          cuda::rows_of<const T>(op.x), cuda::rows_of<T>(op.y),
                       op.dots.ptr<float>(), cross_weights(op.ws, op.bs),  {}};
  constexpr int V = cuda::kPack<T>;
  const unsigned layers = args.weights.layers, n = args.weights.n;
  if (CrossTable<V>::floats(layers, n) * sizeof(float) > cuda::shared_bytes_of_block()) {
    cuda::FloatScratch scratch(ctx, {CrossTable<1>::floats(layers, n)});
    args.table = table_in_scratch(ctx, MultiCrossFwd::kName, args.weights, scratch);
    return launch_forward<T, 1, 0, false>(ctx, args);
  }
  if (!cuda::rows_start_aligned<T>(op.x, op.y)) return launch_forward<T, 1, 0, true>(ctx, args);
  constexpr int kChunks = 16 / V;  // 16 elements of each sample in a lane
  if (n <= kChunks * 32 * V) return launch_forward<T, V, kChunks, true>(ctx, args);
  launch_forward<T, V, 0, true>(ctx, args);
}

void multi_cross_fwd_kernel(const OpContext& ctx, const MultiCrossFwd& op) {
  if (op.x.rows() == 0) return;
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) { run_forward<T>(ctx, op); });
}

void multi_cross_bwd_kernel(const OpContext& ctx, const MultiCrossBwd& op) {
  if (op.x.size() == 0) return;
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) {
    if (!run_staged_backward<T>(ctx, op)) run_any_backward<T>(ctx, op);
  });
  finish_cross_weights(ctx, op);
}

const OpRegistration<MultiCrossFwd> multi_cross_fwd_cuda{DeviceType::Cuda, &multi_cross_fwd_kernel};
const OpRegistration<MultiCrossBwd> multi_cross_bwd_cuda{DeviceType::Cuda, &multi_cross_bwd_kernel};

}  // namespace
}  // namespace hugectr
