// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/ops/multi_cross.hpp"
#include "core/cuda/primitives/float_scratch.hpp"
#include "core/cuda/primitives/group_sum.cuh"
#include "core/cuda/primitives/rows.cuh"

/// The weights of all layers of a MultiCross, as its kernels take them.
namespace hugectr {
namespace {

/// Where the weights lie: a kernel's parameter.
struct CrossWeights {
  unsigned layers = 0, n = 0;
  const float* w[kMostCrossLayers];
  const float* b[kMostCrossLayers];
};

inline CrossWeights cross_weights(const std::vector<TensorRef>& ws,
                                  const std::vector<TensorRef>& bs) {
  CrossWeights weights;
  weights.layers = static_cast<unsigned>(ws.size());
  weights.n = static_cast<unsigned>(ws[0].size());
  for (std::size_t l = 0; l < ws.size(); ++l) {
    weights.w[l] = ws[l].ptr<float>();
    weights.b[l] = bs[l].ptr<float>();
  }
  return weights;
}

/// Vectors of `packs` x V floats side by side. For V = 8 the first four floats of all packs lie
/// together, then the others: so lanes that read a pack each do not meet in a bank.
template <int V>
struct CrossVectors {
  float* data = nullptr;
  unsigned packs = 0;

  __device__ unsigned row() const { return packs * V; }
  __device__ float& at(unsigned vector, unsigned column) const {
    if constexpr (V <= 4) {
      return data[vector * row() + column];
    } else {
      return data[vector * row() + (column % V / 4 * packs + column / V) * 4 + column % 4];
    }
  }
  __device__ cuda::Pack<float, V> pack(unsigned vector, unsigned column) const {
    if constexpr (V <= 4) {
      return cuda::load_pack<V>(data + vector * row() + column);
    } else {
      cuda::Pack<float, V> result;
#pragma unroll
      for (int part = 0; part < V / 4; ++part) {
        const auto four =
            cuda::load_pack<4>(data + vector * row() + (part * packs + column / V) * 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) result.v[part * 4 + i] = four.v[i];
      }
      return result;
    }
  }
};

constexpr unsigned kLayerTile = 6;  // layers whose dots are taken together

/// What is the same for every sample: w_l, B_0 .. B_L and B_l . w_l. The layers are rounded up to
/// whole tiles with weights 0, which change nothing; columns behind n are 0 too.
template <int V>
struct CrossTable {
  CrossVectors<V> w, bias;
  float* offset = nullptr;
  unsigned tiles = 0;  ///< of kLayerTile layers

  CrossTable() = default;
  /// Cuts memory of floats() floats.
  __host__ __device__ CrossTable(float* memory, unsigned layers, unsigned columns) {
    const unsigned packs = (columns + V - 1) / V;
    tiles = (layers + kLayerTile - 1) / kLayerTile;
    w = {memory, packs};
    bias = {memory + tiles * kLayerTile * packs * V, packs};
    offset = bias.data + (layers + 1) * packs * V;
  }
  /// A multiple of 4.
  __host__ __device__ static std::size_t floats(std::size_t layers, std::size_t columns) {
    const std::size_t row = (columns + V - 1) / V * V;
    const std::size_t all = (layers + kLayerTile - 1) / kLayerTile * kLayerTile;
    return ((all + layers + 1) * row + all + 3) / 4 * 4;
  }
};

/// A block fills the table. The dots are summed in double.
template <int V>
__device__ void fill_table(const CrossWeights& weights, const CrossTable<V>& table) {
  const unsigned all = table.tiles * kLayerTile;
  for (unsigned j = threadIdx.x; j < table.w.row(); j += blockDim.x) {
    const bool there = j < weights.n;
    float sum = 0.0f;
#pragma unroll 6
    for (unsigned l = 0; l < all; ++l) {
      const bool layer = there && l < weights.layers;
      table.w.at(l, j) = layer ? weights.w[l][j] : 0.0f;
      if (l < weights.layers) table.bias.at(l, j) = sum;
      if (layer) sum += weights.b[l][j];
    }
    table.bias.at(weights.layers, j) = sum;
  }
  __syncthreads();
  for (unsigned l = threadIdx.x / 32; l < all; l += blockDim.x / 32) {
    double dot = 0.0;
#pragma unroll 4
    for (unsigned j = threadIdx.x % 32; l < weights.layers && j < weights.n; j += 32) {
      dot += static_cast<double>(table.bias.at(l, j)) * static_cast<double>(table.w.at(l, j));
    }
    dot = cuda::group_sum<32>(dot);
    if (threadIdx.x % 32 == 0) table.offset[l] = static_cast<float>(dot);
  }
  __syncthreads();
}

constexpr unsigned kTableThreads = 1024;

__global__ void __launch_bounds__(kTableThreads)
    fill_table_kernel(const __grid_constant__ CrossWeights weights, CrossTable<1> table) {
  fill_table(weights, table);
}

/// The table in scratch, for weights that no block's shared memory holds.
inline CrossTable<1> table_in_scratch(const OpContext& ctx, const char* name,
                                      const CrossWeights& weights, cuda::FloatScratch& scratch) {
  const CrossTable<1> table(scratch.take(CrossTable<1>::floats(weights.layers, weights.n)),
                            weights.layers, weights.n);
  cuda::launch(ctx, name, dim3(1), dim3(kTableThreads), 0, &fill_table_kernel, weights, table);
  return table;
}

}  // namespace
}  // namespace hugectr
