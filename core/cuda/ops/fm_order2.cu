// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/fm_order2.hpp"
#include "core/cuda/primitives/row_tail.cuh"

namespace hugectr {
namespace {

using cuda::Pack;
using cuda::Rows;

/// The k vectors of a sample and the columns of a vector, V at a time.
struct Vectors {
  std::size_t units;       ///< of all samples: rows * dim / V
  cuda::FastDivide row;    ///< by the units of a sample
  std::size_t count, dim;  ///< k and d
};

// A thread multiplies V columns of each vector with the sum of those before it. Moves (k + 1) d
// elements a sample.
template <class T, int V>
__global__ void fm_order2_forward(Vectors vectors, Rows<const T> x, Rows<T> y) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < vectors.units; u += step) {
    std::size_t column;
    const std::size_t row = vectors.row.divide(u, column);
    const T* __restrict__ from = x.at(row, column * V);
    Pack<float, V> before{}, pairs{};
#pragma unroll 8
    for (std::size_t i = 0; i < vectors.count; ++i) {
      const Pack<float, V> v = cuda::load_widened<V>(from + i * vectors.dim);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        pairs.v[k] += v.v[k] * before.v[k];
        before.v[k] += v.v[k];
      }
    }
    cuda::store_narrowed<V>(y.at(row, column * V), pairs);
  }
}

// Reads x twice, the second time from the caches. Moves (2k + 1) d elements a sample.
template <class T, int V>
__global__ void fm_order2_backward(Vectors vectors, Rows<const T> x, Rows<const T> dy, Rows<T> dx) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < vectors.units; u += step) {
    std::size_t column;
    const std::size_t row = vectors.row.divide(u, column);
    const T* __restrict__ from = x.at(row, column * V);
    T* __restrict__ to = dx.at(row, column * V);
    Pack<float, V> sum{};
#pragma unroll 8
    for (std::size_t i = 0; i < vectors.count; ++i) {
      const Pack<float, V> v = cuda::load_widened<V>(from + i * vectors.dim);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.v[k] += v.v[k];
    }
    const Pack<float, V> scale = cuda::load_widened<V>(dy.at(row, column * V));
#pragma unroll 8
    for (std::size_t i = 0; i < vectors.count; ++i) {
      Pack<float, V> v = cuda::load_widened<V>(from + i * vectors.dim);
#pragma unroll
      for (int k = 0; k < V; ++k) v.v[k] = scale.v[k] * (sum.v[k] - v.v[k]);
      cuda::store_narrowed<V>(to + i * vectors.dim, v);
    }
  }
}

Vectors vectors_of(const TensorRef& x, std::size_t dim, std::size_t v) {
  return {x.rows() * (dim / v), cuda::FastDivide(dim / v), x.row_size() / dim, dim};
}

void fm_order2_fwd_kernel(const OpContext& ctx, const FmOrder2Fwd& op) {
  if (op.y.size() == 0) return;
  const std::size_t dim = op.y.shape[1];
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) {
    cuda::with_width<T>(
        dim,
        [&]<int V>(std::integral_constant<int, V>) {
          const Vectors vectors = vectors_of(op.x, dim, V);
          cuda::launch(ctx, FmOrder2Fwd::kName, dim3(cuda::grid_for(vectors.units, cuda::kThreads)),
                       dim3(cuda::kThreads), 0, &fm_order2_forward<T, V>, vectors,
                       cuda::rows_of<const T>(op.x), cuda::rows_of<T>(op.y));
        },
        op.x, op.y);
  });
}

void fm_order2_bwd_kernel(const OpContext& ctx, const FmOrder2Bwd& op) {
  if (op.dx.size() == 0) return;
  const std::size_t dim = op.dy.shape[1];
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) {
    cuda::with_width<T>(
        dim,
        [&]<int V>(std::integral_constant<int, V>) {
          const Vectors vectors = vectors_of(op.x, dim, V);
          cuda::launch(ctx, FmOrder2Bwd::kName, dim3(cuda::grid_for(vectors.units, cuda::kThreads)),
                       dim3(cuda::kThreads), 0, &fm_order2_backward<T, V>, vectors,
                       cuda::rows_of<const T>(op.x), cuda::rows_of<const T>(op.dy),
                       cuda::rows_of<T>(op.dx));
        },
        op.x, op.dy, op.dx);
  });
}

const OpRegistration<FmOrder2Fwd> fm_order2_fwd_cuda{DeviceType::Cuda, &fm_order2_fwd_kernel};
const OpRegistration<FmOrder2Bwd> fm_order2_bwd_cuda{DeviceType::Cuda, &fm_order2_bwd_kernel};

}  // namespace
}  // namespace hugectr
