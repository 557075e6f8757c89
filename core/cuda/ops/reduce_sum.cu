// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/loops/axis_segments.hpp"
#include "core/cpp/ops/reduce_sum.hpp"
#include "core/cuda/primitives/group_sum.cuh"
#include "core/cuda/primitives/row_tail.cuh"

namespace hugectr {
namespace {

using cuda::FastDivide;
using cuda::Pack;
using cuda::Rows;

// A row of x is `outer` blocks of `count` x `inner`; the middle one is summed.
struct Extents {
  std::size_t outer, count, inner;
};

Extents extents(const TensorRef& x, std::int64_t axis) {
  return {segments(x, axis), x.shape[static_cast<std::size_t>(axis)], axis_step(x, axis)};
}

/// Elements that a pack must divide so that no pack crosses from one run into the next. A run that
/// is a whole row may end in a shorter pack.
std::size_t run_of(const Extents& e) { return e.inner > 1 ? e.inner : e.outer > 1 ? e.count : 0; }

/// The sum of pack j of a run.
template <class T, int V>
struct RunTerm {
  Rows<const T> x;
  FastDivide outer;
  std::size_t count;
  __device__ float operator()(std::size_t run, std::size_t j) const {
    std::size_t segment;
    const std::size_t row = outer.divide(run, segment);
    const auto v = cuda::load_row_widened<V>(x.at(row, segment * count), j * V, count);
    float sum = v.v[0];
#pragma unroll
    for (int i = 1; i < V; ++i) sum += v.v[i];
    return sum;
  }
};

template <class T>
struct RunStore {
  Rows<T> y;
  FastDivide outer;
  float factor;
  __device__ void operator()(std::size_t run, float sum) const {
    std::size_t segment;
    const std::size_t row = outer.divide(run, segment);
    *y.at(row, segment) = cuda::narrow<T>(factor * sum);
  }
};

// A thread sums V columns of a block of count x inner. Moves count + 1 elements a column.
template <class T, int V>
__global__ void sum_columns(std::size_t units, FastDivide per_row, FastDivide per_block,
                            std::size_t count, std::size_t inner, float factor, Rows<const T> x,
                            Rows<T> y) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; u < units;
       u += step) {
    std::size_t unit, column;
    const std::size_t row = per_row.divide(u, unit);
    const std::size_t block = per_block.divide(unit, column);
    const T* __restrict__ from = x.at(row, block * count * inner + column * V);
    Pack<float, V> sum{};
#pragma unroll 8
    for (std::size_t i = 0; i < count; ++i) {
      const Pack<float, V> v = cuda::load_widened<V>(from + i * inner);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.v[k] += v.v[k];
    }
#pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] *= factor;
    cuda::store_narrowed<V>(y.at(row, block * inner + column * V), sum);
  }
}

// Unit: V elements of dx within one run of equal source: of dy for inner > 1, one value else.
template <class T, int V, bool Single>
__global__ void spread_columns(std::size_t units, FastDivide per_row, FastDivide per_block,
                               FastDivide per_inner, std::size_t inner, std::size_t row_size,
                               float factor, Rows<const T> dy, Rows<T> dx) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; u < units;
       u += step) {
    std::size_t unit, in_block, column;
    const std::size_t row = per_row.divide(u, unit);
    const std::size_t block = per_block.divide(unit, in_block);
    Pack<T, V> value;
    if constexpr (Single) {
      const T g = cuda::narrow<T>(factor * cuda::widen(*dy.at(row, block)));
#pragma unroll
      for (int k = 0; k < V; ++k) value.v[k] = g;
    } else {
      per_inner.divide(in_block, column);
      value = cuda::load_pack<V>(dy.at(row, block * inner + column * V));
#pragma unroll
      for (int k = 0; k < V; ++k) value.v[k] = cuda::narrow<T>(factor * cuda::widen(value.v[k]));
    }
    cuda::store_row_pack<V>(dx.at(row, 0), unit * V, row_size, value);
  }
}

template <class T, int V>
void sum_runs(const OpContext& ctx, const ReduceSumFwd& op, const Extents& e) {
  const auto x = cuda::rows_of<const T>(op.x);
  const auto y = cuda::rows_of<T>(op.y);
  const auto factor = static_cast<float>(op.factor);
  if (e.inner == 1) {
    const FastDivide outer(e.outer);
    cuda::sum_each(ctx, ReduceSumFwd::kName, op.x.rows() * e.outer, cuda::packs_of(e.count, V),
                   RunTerm<T, V>{x, outer, e.count}, RunStore<T>{y, outer, factor});
    return;
  }
  const std::size_t per_block = e.inner / V, units = op.x.rows() * e.outer * per_block;
  cuda::launch(ctx, ReduceSumFwd::kName, dim3(cuda::grid_for(units, cuda::kThreads)),
               dim3(cuda::kThreads), 0, &sum_columns<T, V>, units, FastDivide(e.outer * per_block),
               FastDivide(per_block), e.count, e.inner, factor, x, y);
}

template <class T, int V>
void spread_runs(const OpContext& ctx, const ReduceSumBwd& op, const Extents& e) {
  const std::size_t per_block = cuda::packs_of(e.count * e.inner, V);
  const std::size_t units = op.dx.rows() * e.outer * per_block;
  cuda::launch(ctx, ReduceSumBwd::kName, dim3(cuda::grid_for(units, cuda::kThreads)),
               dim3(cuda::kThreads), 0,
               e.inner == 1 ? &spread_columns<T, V, true> : &spread_columns<T, V, false>, units,
               FastDivide(e.outer * per_block), FastDivide(per_block), FastDivide(e.inner / V),
               e.inner, op.dx.row_size(), static_cast<float>(op.factor),
               cuda::rows_of<const T>(op.dy), cuda::rows_of<T>(op.dx));
}

void reduce_sum_fwd_kernel(const OpContext& ctx, const ReduceSumFwd& op) {
  if (op.y.size() == 0) return;
  const Extents e = extents(op.x, op.axis);
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) {
    cuda::with_width<T>(
        run_of(e), [&]<int V>(std::integral_constant<int, V>) { sum_runs<T, V>(ctx, op, e); }, op.x,
        e.inner == 1 ? TensorRef{} : op.y);
  });
}

void reduce_sum_bwd_kernel(const OpContext& ctx, const ReduceSumBwd& op) {
  if (op.dx.size() == 0) return;
  const Extents e = extents(op.dx, op.axis);
  cuda::with_real_type(op.dx.dtype, [&]<class T>(T) {
    cuda::with_width<T>(
        run_of(e), [&]<int V>(std::integral_constant<int, V>) { spread_runs<T, V>(ctx, op, e); },
        op.dx, e.inner == 1 ? TensorRef{} : op.dy);
  });
}

const OpRegistration<ReduceSumFwd> reduce_sum_fwd_cuda{DeviceType::Cuda, &reduce_sum_fwd_kernel};
const OpRegistration<ReduceSumBwd> reduce_sum_bwd_cuda{DeviceType::Cuda, &reduce_sum_bwd_kernel};

}  // namespace
}  // namespace hugectr
