// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/fm_order2.hpp"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr {
namespace {

constexpr std::size_t kWidth = 4;

/// The k vectors of a sample and the columns of a vector, V at a time.
struct Vectors {
  std::size_t units;       ///< of all samples: rows * dim / V
  cuda::FastDivide row;    ///< by the units of a sample
  std::size_t count, dim;  ///< k and d
};

// A thread sums V columns over all vectors of its sample. Moves 4 (k + 1) d bytes a sample.
template <int V>
__global__ void fm_order2_forward(Vectors vectors, cuda::Rows<const float> x, cuda::Rows<float> y) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < vectors.units; u += step) {
    std::size_t column;
    const std::size_t row = vectors.row.divide(u, column);
    const float* __restrict__ from = x.at(row, column * V);
    cuda::Pack<float, V> sum{}, squares{};
#pragma unroll 8
    for (std::size_t i = 0; i < vectors.count; ++i) {
      const cuda::Pack<float, V> v = cuda::load_pack<V>(from + i * vectors.dim);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        sum.v[k] += v.v[k];
        squares.v[k] += v.v[k] * v.v[k];
      }
    }
#pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] = 0.5f * (sum.v[k] * sum.v[k] - squares.v[k]);
    cuda::store_pack<V>(y.at(row, column * V), sum);
  }
}

// Reads x twice, the second time from the caches. Moves 4 (2k + 1) d bytes a sample.
template <int V>
__global__ void fm_order2_backward(Vectors vectors, cuda::Rows<const float> x,
                                   cuda::Rows<const float> dy, cuda::Rows<float> dx) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < vectors.units; u += step) {
    std::size_t column;
    const std::size_t row = vectors.row.divide(u, column);
    const float* __restrict__ from = x.at(row, column * V);
    float* __restrict__ to = dx.at(row, column * V);
    cuda::Pack<float, V> sum{};
#pragma unroll 8
    for (std::size_t i = 0; i < vectors.count; ++i) {
      const cuda::Pack<float, V> v = cuda::load_pack<V>(from + i * vectors.dim);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.v[k] += v.v[k];
    }
    const cuda::Pack<float, V> scale = cuda::load_pack<V>(dy.at(row, column * V));
#pragma unroll 4
    for (std::size_t i = 0; i < vectors.count; ++i) {
      cuda::Pack<float, V> v = cuda::load_pack<V>(from + i * vectors.dim);
#pragma unroll
      for (int k = 0; k < V; ++k) v.v[k] = scale.v[k] * (sum.v[k] - v.v[k]);
      cuda::store_pack<V>(to + i * vectors.dim, v);
    }
  }
}

bool fits(const TensorRef& ref) {
  return cuda::packs_fit(ref.ptr<float>(), ref.rows() > 1 ? ref.row_stride : 0, kWidth);
}

Vectors vectors_of(const TensorRef& x, std::size_t dim, std::size_t v) {
  return {x.rows() * (dim / v), cuda::FastDivide(dim / v), x.row_size() / dim, dim};
}

void fm_order2_fwd_kernel(const OpContext& ctx, const FmOrder2Fwd& op) {
  if (op.y.size() == 0) return;
  const std::size_t dim = op.y.shape[1];
  const bool packs = dim % kWidth == 0 && fits(op.x) && fits(op.y);
  const Vectors vectors = vectors_of(op.x, dim, packs ? kWidth : 1);
  cuda::launch(ctx, FmOrder2Fwd::kName, dim3(cuda::grid_for(vectors.units, cuda::kThreads)),
               dim3(cuda::kThreads), 0, packs ? &fm_order2_forward<kWidth> : &fm_order2_forward<1>,
               vectors, cuda::rows_of<const float>(op.x), cuda::rows_of<float>(op.y));
}

void fm_order2_bwd_kernel(const OpContext& ctx, const FmOrder2Bwd& op) {
  if (op.dx.size() == 0) return;
  const std::size_t dim = op.dy.shape[1];
  const bool packs = dim % kWidth == 0 && fits(op.x) && fits(op.dy) && fits(op.dx);
  const Vectors vectors = vectors_of(op.x, dim, packs ? kWidth : 1);
  cuda::launch(ctx, FmOrder2Bwd::kName, dim3(cuda::grid_for(vectors.units, cuda::kThreads)),
               dim3(cuda::kThreads), 0,
               packs ? &fm_order2_backward<kWidth> : &fm_order2_backward<1>, vectors,
               cuda::rows_of<const float>(op.x), cuda::rows_of<const float>(op.dy),
               cuda::rows_of<float>(op.dx));
}

const OpRegistration<FmOrder2Fwd> fm_order2_fwd_cuda{DeviceType::Cuda, &fm_order2_fwd_kernel};
const OpRegistration<FmOrder2Bwd> fm_order2_bwd_cuda{DeviceType::Cuda, &fm_order2_bwd_kernel};

}  // namespace
}  // namespace hugectr
