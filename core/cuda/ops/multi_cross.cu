// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/ops/multi_cross.hpp"
#include "core/cuda/ops/cross_any_shape.cuh"
#include "core/cuda/ops/cross_backward.cuh"
#include "core/cuda/ops/cross_finish.cuh"
#include "core/cuda/ops/cross_weights.cuh"
#include "core/cuda/primitives/async_copy.cuh"
#include "core/cuda/primitives/row_tail.cuh"

namespace hugectr {
namespace {

using cuda::Pack;
using cuda::Rows;

constexpr int kRows = 2;  // samples of a warp: they share its loads of w
constexpr unsigned kWarps = 8;
constexpr unsigned kBlock = 32 * kWarps;
constexpr unsigned kBlocksPerProcessor = 3;

template <class T>
struct CrossForward {
  std::size_t rows;
  Rows<const T> x;
  Rows<T> y;
  float* dots;
  CrossWeights weights;
  CrossTable<1> table;  // only where shared memory does not hold it
};

/// kRows samples of a warp, read from memory, or the caches, by every for_each().
template <class T, int V>
struct RowsInMemory {
  static constexpr std::size_t kBytes = 0;  // of shared memory
  const CrossForward<T>& op;
  std::size_t first = 0;

  __device__ RowsInMemory(const CrossForward<T>& op, void*) : op(op) {}
  __device__ void start(std::size_t) {}
  __device__ void begin(std::size_t now, std::size_t) { first = now; }
  /// f(first column, V numbers of each sample) for the packs of this lane.
  template <class F>
  __device__ void for_each(const F& f) const {
    Pack<float, V> wide[kRows];
    for (unsigned j = threadIdx.x % 32 * V; j < op.weights.n; j += 32 * V) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const T* row = op.x.at(min(first + r, op.rows - 1), 0);
        wide[r] = cuda::load_row_widened<V>(row, j, op.weights.n);
      }
      f(j, wide);
    }
  }
};

/// The same brought into shared memory while the samples before are worked on; kChunks x 32 packs a
/// row, zeros behind its end. A lane reads what it has brought itself: nobody waits for another.
template <class T, int kChunks>
struct RowsAhead {
  static constexpr unsigned kWidth = kChunks * 32 * cuda::kPack<T>;
  static constexpr std::size_t kBytes = kWarps * 2 * kRows * kWidth * sizeof(T);
  const CrossForward<T>& op;
  T* stage[2];

  __device__ RowsAhead(const CrossForward<T>& op, void* memory) : op(op) {
    stage[0] = static_cast<T*>(memory) + threadIdx.x / 32 * (2 * kRows * kWidth) +
               threadIdx.x % 32 * cuda::kPack<T>;
    stage[1] = stage[0] + kRows * kWidth;
#pragma unroll
    for (int i = 0; i < 2 * kRows * kChunks; ++i) {
      *reinterpret_cast<uint4*>(stage[0] + i * 32 * cuda::kPack<T>) = make_uint4(0, 0, 0, 0);
    }
  }
  __device__ void start(std::size_t first) {
    const unsigned n = op.weights.n;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::size_t row = first + r;
      if (row >= op.rows) break;
      const T* from = op.x.at(row, 0);
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const unsigned j = (c * 32 + threadIdx.x % 32) * cuda::kPack<T>;
        if (j >= n) break;
        cuda::copy_row_pack_async(stage[0] + r * kWidth + c * 32 * cuda::kPack<T>, from, j, n,
                                  row + 1 == op.rows);
      }
    }
    cuda::end_copy_group();
  }
  /// Starts the next samples and waits for those that were started before.
  __device__ void begin(std::size_t, std::size_t next) {
    std::swap(stage[0], stage[1]);
    start(next);
    cuda::wait_for_copies<1>();
  }
  template <class F>
  __device__ void for_each(const F& f) const {
    Pack<float, cuda::kPack<T>> wide[kRows];
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const T* at = stage[1] + r * kWidth + c * 32 * cuda::kPack<T>;
        wide[r] = cuda::PackWords<T>::load(at).widened();
      }
      f((c * 32 + threadIdx.x % 32) * cuda::kPack<T>, wide);
    }
  }
};

template <int V, class T>
__device__ void store_columns(T* row, unsigned j, unsigned n, const Pack<float, V>& y) {
  if constexpr (V == cuda::kPack<T>) {
    cuda::PackWords<T>::narrowed(y).store(row + j, j, n);
  } else {
    cuda::store_row_narrowed<V>(row, j, n, y);
  }
}

// A warp takes kRows samples: the dots, then y. Moves 2 ne + 4L bytes a sample (n columns of e
// bytes); the weights are read once a block.
template <class T, int V, class Samples, bool kShared>
__global__ void __launch_bounds__(kBlock, kBlocksPerProcessor)
    cross_forward(const __grid_constant__ CrossForward<T> op, unsigned columns) {
  extern __shared__ float4 block_memory[];
  const unsigned layers = op.weights.layers, n = op.weights.n, lane = threadIdx.x % 32;
  const std::size_t step = std::size_t{gridDim.x} * kWarps * kRows;
  std::size_t first = (std::size_t{blockIdx.x} * kWarps + threadIdx.x / 32) * kRows;
  // The table lies first: behind the samples, at an offset known to the compiler, nvcc 13.0 adds
  // that offset twice in stores of fill_table().
  Samples samples(op, block_memory + (kShared ? CrossTable<V>::floats(layers, columns) / 4 : 0));
  samples.start(first);
  CrossTable<V> table;
  if constexpr (kShared) {
    table = CrossTable<V>(reinterpret_cast<float*>(block_memory), layers, columns);
    fill_table(op.weights, table);
  } else {
    table = op.table;
  }
  for (; first < op.rows; first += step) {
    samples.begin(first, first + step);
    float c[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) c[r] = 1.0f;
    for (unsigned l = 0; l < layers; l += kLayerTile) {
      float sum[kRows][kLayerTile] = {}, own = 0.0f;
      samples.for_each([&](unsigned j, const Pack<float, V>(&x)[kRows]) {
#pragma unroll
        for (int k = 0; k < kLayerTile; ++k) {
          const Pack<float, V> w = table.w.pack(l + k, j);
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
#pragma unroll
            for (int i = 0; i < V; ++i) sum[r][k] += x[r].v[i] * w.v[i];
          }
        }
      });
#pragma unroll
      for (int k = 0; k < kLayerTile; ++k) {
        const float offset = table.offset[l + k];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          sum[r][k] = cuda::group_sum<32>(sum[r][k]);
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
        store_columns<V>(op.y.at(first + r, 0), j, n, y);
      }
    });
  }
}

/// False when a block's shared memory does not hold it.
template <class T, int V, class Samples, bool kShared = true>
bool launch_forward(const OpContext& ctx, const CrossForward<T>& op, unsigned columns) {
  std::size_t shared = Samples::kBytes;
  if constexpr (kShared) {
    shared += CrossTable<V>::floats(op.weights.layers, columns) * sizeof(float);
    if (shared > cuda::shared_bytes_of_block()) return false;
  }
  const unsigned grid = std::min(cuda::grid_for(op.rows, kWarps * kRows),
                                 kBlocksPerProcessor * cuda::processor_count());
  cuda::launch(ctx, MultiCrossFwd::kName, dim3(grid), dim3(kBlock), shared,
               &cross_forward<T, V, Samples, kShared>, op, columns);
  return true;
}

template <class T>
void run_forward(const OpContext& ctx, const MultiCrossFwd& op) {
  CrossForward<T> args{op.x.rows(),          cuda::rows_of<const T>(op.x), cuda::rows_of<T>(op.y),
                       op.dots.ptr<float>(), cross_weights(op.ws, op.bs),  {}};
  constexpr int V = cuda::kPack<T>;
  using Ahead = RowsAhead<T, 16 / V>;  // 16 elements of each sample in a lane
  const unsigned layers = args.weights.layers, n = args.weights.n;
  if (cuda::rows_start_aligned<T>(op.x, op.y)) {
    if (n <= Ahead::kWidth && launch_forward<T, V, Ahead>(ctx, args, Ahead::kWidth)) return;
    if (launch_forward<T, V, RowsInMemory<T, V>>(ctx, args, n)) return;
  } else if (launch_forward<T, 1, RowsInMemory<T, 1>>(ctx, args, n)) {
    return;
  }
  cuda::FloatScratch scratch(ctx, {CrossTable<1>::floats(layers, n)});
  args.table = table_in_scratch(ctx, MultiCrossFwd::kName, args.weights, scratch);
  launch_forward<T, 1, RowsInMemory<T, 1>, false>(ctx, args, n);
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
