// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/ops/multi_cross.hpp"
#include "core/cuda/ops/cross_weights.cuh"
#include "core/cuda/primitives/column_parts.hpp"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/float_scratch.hpp"
#include "core/cuda/primitives/group_sum.cuh"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr {
namespace {

using cuda::Pack;
using cuda::Rows;

constexpr int kWidth = 4;
constexpr int kRows = 4;       // samples of a warp: they share its loads of w
constexpr int kLayerTile = 4;  // most layers whose sums a thread holds
constexpr unsigned kWarps = 8;
constexpr unsigned kBlock = 32 * kWarps;

using Shared = CrossWeights;

// sum[r][k] = x[r] . w_k in every lane of the warp; beyond `layers` the last w is taken again.
template <int V, int Layers>
__device__ void dot_rows(const float* const (&x)[kRows], const float* w, std::size_t layers,
                         std::size_t n, float (&sum)[kRows][Layers]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int k = 0; k < Layers; ++k) sum[r][k] = 0.0f;
  }
  for (std::size_t j = threadIdx.x % 32 * V; j < n; j += 32 * V) {
    Pack<float, V> u[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) u[r] = cuda::load_pack<V>(x[r] + j);
#pragma unroll
    for (int k = 0; k < Layers; ++k) {
      const std::size_t layer = k < layers ? k : layers - 1;
      const Pack<float, V> v = cuda::load_pack<V>(w + layer * n + j);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int i = 0; i < V; ++i) sum[r][k] += u[r].v[i] * v.v[i];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int k = 0; k < Layers; ++k) sum[r][k] = cuda::group_sum<32>(sum[r][k]);
  }
}

// A warp takes kRows samples: first the dots, `Layers` of them at a time, then y, for which x comes
// from the caches. Moves 8n + 4L bytes and 2nL + 2n FLOPs a sample.
template <int V, int Layers>
__global__ void __launch_bounds__(kBlock)
    cross_forward(std::size_t rows, Shared shared, Rows<const float> x, Rows<float> y,
                  float* dots) {
  const std::size_t n = shared.n, lane = threadIdx.x % 32;
  const std::size_t warp = static_cast<std::size_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  for (std::size_t first = warp * kRows; first < rows; first += gridDim.x * kWarps * kRows) {
    const float* from[kRows];
    float c[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      from[r] = x.at(first + r < rows ? first + r : rows - 1, 0);
      c[r] = 1.0f;
    }
    for (std::size_t l = 0; l < shared.layers; l += Layers) {
      float sum[kRows][Layers];
      const std::size_t layers = shared.layers - l;
      dot_rows<V, Layers>(from, shared.w + l * n, layers, n, sum);
#pragma unroll
      for (int k = 0; k < Layers; ++k) {
        if (k >= layers) break;
        const float offset = shared.offset[l + k];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          c[r] = cross_scale_next(c[r], sum[r][k], offset);
          if (lane == 0 && first + r < rows) dots[(first + r) * shared.layers + l + k] = sum[r][k];
        }
      }
    }
    const float* bias = shared.bias + shared.layers * n;
    for (std::size_t j = lane * V; j < n; j += 32 * V) {
      const Pack<float, V> b = cuda::load_pack<V>(bias + j);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (first + r >= rows) break;
        Pack<float, V> value = cuda::load_pack<V>(from[r] + j);
#pragma unroll
        for (int i = 0; i < V; ++i) value.v[i] = c[r] * value.v[i] + b.v[i];
        cuda::store_pack<V>(y.at(first + r, j), value);
      }
    }
  }
}

template <int V>
void run_forward(const OpContext& ctx, const MultiCrossFwd& op, const Shared& shared) {
  // As few layer tiles as kLayerTile allows, of equal size.
  const std::size_t tiles = (shared.layers + kLayerTile - 1) / kLayerTile;
  const std::size_t tile = (shared.layers + tiles - 1) / tiles;
  auto* kernel = tile == 1   ? &cross_forward<V, 1>
                 : tile == 2 ? &cross_forward<V, 2>
                 : tile == 3 ? &cross_forward<V, 3>
                             : &cross_forward<V, 4>;
  cuda::launch(ctx, MultiCrossFwd::kName, dim3(cuda::grid_for(op.x.rows(), kWarps * kRows)),
               dim3(kBlock), 0, kernel, op.x.rows(), shared, cuda::rows_of<const float>(op.x),
               cuda::rows_of<float>(op.y), op.dots.ptr<float>());
}

void multi_cross_fwd_kernel(const OpContext& ctx, const MultiCrossFwd& op) {
  if (op.x.rows() == 0) return;
  const std::size_t layers = op.ws.size(), n = op.x.shape[1];
  cuda::FloatScratch scratch(ctx, {layers * n, layers * n, (layers + 1) * n, layers});
  const Shared shared = share_weights(ctx, op, scratch);
  if (cuda::rows_allow_16_bytes(op.x, op.y)) {
    run_forward<kWidth>(ctx, op, shared);
  } else {
    run_forward<1>(ctx, op, shared);
  }
}

/// Scalars of every sample and layer, `stride` a sample: whole tiles of kLayerTile layers.
struct Scalars {
  float* a;   ///< a_{l+1}
  float* ac;  ///< a_{l+1} c_l, 0 beyond the last layer
  std::size_t stride;
};

// One sample: fills its scalars, `ac` among them also in shared memory; returns c_L.
__device__ float sample_scalars(const Shared& shared, const float* dots, float a,
                                const Scalars& scalars, std::size_t row, float* ac) {
  float c = 1.0f;
  for (std::size_t l = 0; l < shared.layers; ++l) {
    ac[l] = c;
    c = cross_scale_next(c, dots[l], shared.offset[l]);
  }
  for (std::size_t l = shared.layers; l-- > 0;) {
    ac[l] *= a;
    scalars.a[row * scalars.stride + l] = a;
    scalars.ac[row * scalars.stride + l] = ac[l];
    a += a * dots[l];
  }
  for (std::size_t l = shared.layers; l < scalars.stride; ++l) {
    scalars.ac[row * scalars.stride + l] = 0.0f;
  }
  return c;
}

// A warp takes kRows samples: dy . x, the scalars (a lane a sample), then dx unless its data is
// null. Moves 12n + 12L bytes and 2n (L + 2) FLOPs a sample.
template <int V>
__global__ void __launch_bounds__(kBlock)
    cross_backward(std::size_t rows, Shared shared, Rows<const float> x, Rows<const float> dy,
                   const float* dots, Scalars scalars, Rows<float> dx) {
  extern __shared__ float all_ac[];  // kBlock / 32 x kRows x layers
  const std::size_t n = shared.n, lane = threadIdx.x % 32, layers = shared.layers;
  float* ac = all_ac + threadIdx.x / 32 * kRows * layers;
  const std::size_t warp = static_cast<std::size_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  for (std::size_t first = warp * kRows; first < rows; first += gridDim.x * kWarps * kRows) {
    const float *from[kRows], *gradient[kRows];
    float a[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::size_t row = first + r < rows ? first + r : rows - 1;
      from[r] = x.at(row, 0);
      gradient[r] = dy.at(row, 0);
      a[r] = 0.0f;
    }
    for (std::size_t j = lane * V; j < n; j += 32 * V) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const Pack<float, V> u = cuda::load_pack<V>(from[r] + j);
        const Pack<float, V> v = cuda::load_pack<V>(gradient[r] + j);
#pragma unroll
        for (int i = 0; i < V; ++i) a[r] += u.v[i] * v.v[i];
      }
    }
    float own_a = 0.0f, own_c = 0.0f;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      a[r] = cuda::group_sum<32>(a[r]);
      if (lane == r) own_a = a[r];
    }
    if (lane < kRows && first + lane < rows) {
      const std::size_t row = first + lane;
      own_c = sample_scalars(shared, dots + row * layers, own_a, scalars, row, ac + lane * layers);
    }
    __syncwarp();  // ac is read by other lanes
    float c[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) c[r] = __shfl_sync(0xFFFFFFFFu, own_c, r);
    if (dx.data != nullptr) {
      for (std::size_t j = lane * V; j < n; j += 32 * V) {
        Pack<float, V> total[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          total[r] = cuda::load_pack<V>(gradient[r] + j);
#pragma unroll
          for (int i = 0; i < V; ++i) total[r].v[i] *= c[r];
        }
        for (std::size_t l = 0; l < layers; ++l) {
          const Pack<float, V> w = cuda::load_pack<V>(shared.w + l * n + j);
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            const float scale = ac[r * layers + l];
#pragma unroll
            for (int i = 0; i < V; ++i) total[r].v[i] += scale * w.v[i];
          }
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (first + r < rows) cuda::store_pack<V>(dx.at(first + r, j), total[r]);
        }
      }
    }
    __syncwarp();  // before the next samples overwrite ac
  }
}

/// Batch sums of a_{l+1} c_l x for a tile of layers and, when First, of dy; for sum_tiles().
template <int V, bool First>
struct CrossSums {
  using Sum = float;
  static constexpr int kSums = (kLayerTile + (First ? 1 : 0)) * V;
  struct Row {
    Pack<float, V> x, dy;
  };
  Rows<const float> x, dy;
  const float* ac;  ///< at the tile's first layer
  std::size_t ac_stride;
  std::size_t layers;  ///< of the tile
  float* partial;      ///< at the tile's first layer
  float* partial_dy;
  std::size_t partial_stride, n;

  __device__ int columns(std::size_t) const { return 0; }
  __device__ Row load(std::size_t row, std::size_t group) const {
    Row result;
    result.x = cuda::load_pack<V>(x.at(row, group * V));
    if constexpr (First) result.dy = cuda::load_pack<V>(dy.at(row, group * V));
    return result;
  }
  __device__ void add(const Row& loaded, std::size_t row, std::size_t, int,
                      float (&sums)[kSums]) const {
    const Pack<float, kLayerTile> scale = cuda::load_pack<kLayerTile>(ac + row * ac_stride);
#pragma unroll
    for (int k = 0; k < kLayerTile; ++k) {
#pragma unroll
      for (int i = 0; i < V; ++i) sums[k * V + i] += scale.v[k] * loaded.x.v[i];
    }
    if constexpr (First) {
#pragma unroll
      for (int i = 0; i < V; ++i) sums[kLayerTile * V + i] += loaded.dy.v[i];
    }
  }
  __device__ void store(std::size_t piece, std::size_t group, const float (&sums)[kSums]) const {
    const std::size_t at = piece * partial_stride + group * V;
#pragma unroll
    for (int i = 0; i < V; ++i) {
#pragma unroll
      for (int k = 0; k < kLayerTile; ++k) {
        if (k < layers) partial[at + k * n + i] = sums[k * V + i];
      }
      if constexpr (First) partial_dy[at + i] = sums[kLayerTile * V + i];
    }
  }
};

/// Batch sums of a_{l+1}.
struct ScalarSums {
  using Sum = float;
  static constexpr int kSums = 1;
  using Row = float;
  const float* a;
  std::size_t stride;
  float* partial;
  std::size_t partial_stride;

  __device__ int columns(std::size_t) const { return 0; }
  __device__ float load(std::size_t row, std::size_t layer) const {
    return a[row * stride + layer];
  }
  __device__ void add(float value, std::size_t, std::size_t, int, float (&sums)[1]) const {
    sums[0] += value;
  }
  __device__ void store(std::size_t piece, std::size_t layer, const float (&sums)[1]) const {
    partial[piece * partial_stride + layer] = sums[0];
  }
};

struct StoreTotal {
  float* totals;
  __device__ void operator()(std::size_t column, double sum) const {
    totals[column] = static_cast<float>(sum);
  }
};

// Turns the totals into the increments of dw, in place, and of db.
__global__ void finish_weights(Shared shared, float* totals, float* db) {
  const std::size_t n = shared.n;
  const std::size_t j = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (j >= n) return;
  const float* sum_a = totals + (shared.layers + 1) * n;
  float sum_dy = totals[shared.layers * n + j];
  for (std::size_t l = shared.layers; l-- > 0;) {
    totals[l * n + j] += sum_a[l] * shared.bias[l * n + j];
    // sum_dy grows by A_l w_l on the way down: db_l wants the layers above l only.
    db[l * n + j] = sum_dy;
    sum_dy += sum_a[l] * shared.w[l * n + j];
  }
}

template <int V>
void run_backward(const OpContext& ctx, const MultiCrossBwd& op, const Shared& shared,
                  const Scalars& scalars) {
  const std::size_t rows = op.x.rows(), layers = shared.layers, n = shared.n;
  const auto x = cuda::rows_of<const float>(op.x), dy = cuda::rows_of<const float>(op.dy);
  cuda::launch(ctx, MultiCrossBwd::kName, dim3(cuda::grid_for(rows, kWarps * kRows)), dim3(kBlock),
               kWarps * kRows * layers * sizeof(float), &cross_backward<V>, rows, shared, x, dy,
               op.dots.ptr<float>(), scalars, cuda::rows_of<float>(op.dx));
  float* partial = op.partial.ptr<float>();
  const std::size_t stride = op.partial.row_size();
  for (std::size_t l = 0; l < layers; l += kLayerTile) {
    const std::size_t tile = std::min<std::size_t>(kLayerTile, layers - l);
    const auto sum = [&]<bool First>() {
      cuda::sum_tiles(ctx, MultiCrossBwd::kName, rows, n / V,
                      CrossSums<V, First>{x, dy, scalars.ac + l, scalars.stride, tile,
                                          partial + l * n, partial + layers * n, stride, n});
    };
    if (l == 0) {
      sum.template operator()<true>();
    } else {
      sum.template operator()<false>();
    }
  }
}

// Adds the increments to the gradients, which lie anywhere.
void add_to_gradients(const OpContext& ctx, const MultiCrossBwd& op, const float* dw,
                      const float* db, std::size_t n) {
  std::vector<cuda::ColumnPart> parts;
  for (const auto& [to, from] : {std::pair{&op.dws, dw}, std::pair{&op.dbs, db}}) {
    for (std::size_t l = 0; l < to->size(); ++l) {
      cuda::ColumnPart part;
      part.to = (*to)[l].ptr<float>();
      part.count = n;
      part.sources[0] = {from + l * n, 0, 0};
      part.source_count = 1;
      part.accumulate = true;
      cuda::append_part(parts, part);
    }
  }
  cuda::run_column_parts(ctx, MultiCrossBwd::kName, 1, parts);
}

void multi_cross_bwd_kernel(const OpContext& ctx, const MultiCrossBwd& op) {
  const std::size_t rows = op.x.rows(), layers = op.ws.size(), n = op.x.shape[1];
  if (rows == 0 || n == 0) return;
  const std::size_t stride = cuda::round_up(layers, kLayerTile);
  cuda::FloatScratch scratch(ctx, {layers * n, layers * n, (layers + 1) * n, layers, rows * stride,
                                   rows * stride, (layers + 1) * n + layers, layers * n});
  const Shared shared = share_weights(ctx, op, scratch);
  float* a = scratch.take(rows * stride);
  float* ac = scratch.take(rows * stride);
  const Scalars scalars{a, ac, stride};
  if (cuda::rows_allow_16_bytes(op.x, op.dy, op.dx)) {
    run_backward<kWidth>(ctx, op, shared, scalars);
  } else {
    run_backward<1>(ctx, op, shared, scalars);
  }
  cuda::sum_tiles(
      ctx, MultiCrossBwd::kName, rows, layers,
      ScalarSums{a, stride, op.partial.ptr<float>() + (layers + 1) * n, op.partial.row_size()});
  float* totals = scratch.take((layers + 1) * n + layers);
  float* db = scratch.take(layers * n);
  cuda::finish_tiles<float>(ctx, MultiCrossBwd::kName, op.partial, StoreTotal{totals});
  cuda::launch(ctx, MultiCrossBwd::kName, dim3(static_cast<unsigned>((n + 63) / 64)), dim3(64), 0,
               &finish_weights, shared, totals, db);
  add_to_gradients(ctx, op, totals, db, n);
}

const OpRegistration<MultiCrossFwd> multi_cross_fwd_cuda{DeviceType::Cuda, &multi_cross_fwd_kernel};
const OpRegistration<MultiCrossBwd> multi_cross_bwd_cuda{DeviceType::Cuda, &multi_cross_bwd_kernel};

}  // namespace
}  // namespace hugectr
