// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/loops/axis_segments.hpp"
#include "core/cpp/ops/reduce_sum.hpp"
#include "core/cuda/primitives/group_sum.cuh"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr {
namespace {

constexpr std::size_t kWidth = 4;

// A row of x is `outer` blocks of `count` x `inner`; the middle one is summed.
struct Extents {
  std::size_t outer, count, inner;
};

Extents extents(const TensorRef& x, std::int64_t axis) {
  return {segments(x, axis), x.shape[static_cast<std::size_t>(axis)], axis_step(x, axis)};
}

bool fits(const TensorRef& ref) {
  return cuda::packs_fit(ref.ptr<float>(), ref.rows() > 1 ? ref.row_stride : 0, kWidth);
}

struct RunTerm {
  cuda::Rows<const float> x;
  cuda::FastDivide outer;
  std::size_t count;
  __device__ float operator()(std::size_t run, std::size_t j) const {
    std::size_t segment;
    const std::size_t row = outer.divide(run, segment);
    return *x.at(row, segment * count + j);
  }
};

struct RunStore {
  cuda::Rows<float> y;
  cuda::FastDivide outer;
  __device__ void operator()(std::size_t run, float sum) const {
    std::size_t segment;
    const std::size_t row = outer.divide(run, segment);
    *y.at(row, segment) = sum;
  }
};

// A thread sums V columns of a block of count x inner. Moves 4 (count + 1) bytes a column.
template <int V>
__global__ void sum_columns(std::size_t units, cuda::FastDivide per_row, cuda::FastDivide per_block,
                            std::size_t count, std::size_t inner, cuda::Rows<const float> x,
                            cuda::Rows<float> y) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; u < units;
       u += step) {
    std::size_t unit, column;
    const std::size_t row = per_row.divide(u, unit);
    const std::size_t block = per_block.divide(unit, column);
    const float* __restrict__ from = x.at(row, block * count * inner + column * V);
    cuda::Pack<float, V> sum{};
#pragma unroll 8
    for (std::size_t i = 0; i < count; ++i) {
      const cuda::Pack<float, V> v = cuda::load_pack<V>(from + i * inner);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.v[k] += v.v[k];
    }
    cuda::store_pack<V>(y.at(row, block * inner + column * V), sum);
  }
}

// Unit: V elements of dx within one run of equal source: of dy for inner > 1, one value else.
template <int V, bool Single>
__global__ void spread_columns(std::size_t units, cuda::FastDivide per_row,
                               cuda::FastDivide per_block, cuda::FastDivide per_inner,
                               std::size_t inner, cuda::Rows<const float> dy,
                               cuda::Rows<float> dx) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; u < units;
       u += step) {
    std::size_t unit, in_block, column;
    const std::size_t row = per_row.divide(u, unit);
    const std::size_t block = per_block.divide(unit, in_block);
    cuda::Pack<float, V> value;
    if constexpr (Single) {
      const float g = *dy.at(row, block);
#pragma unroll
      for (int k = 0; k < V; ++k) value.v[k] = g;
    } else {
      per_inner.divide(in_block, column);
      value = cuda::load_pack<V>(dy.at(row, block * inner + column * V));
    }
    cuda::store_pack<V>(dx.at(row, unit * V), value);
  }
}

void reduce_sum_fwd_kernel(const OpContext& ctx, const ReduceSumFwd& op) {
  if (op.y.size() == 0) return;
  const Extents e = extents(op.x, op.axis);
  const auto x = cuda::rows_of<const float>(op.x);
  const auto y = cuda::rows_of<float>(op.y);
  if (e.inner == 1) {
    const cuda::FastDivide outer(e.outer);
    cuda::sum_each(ctx, ReduceSumFwd::kName, op.x.rows() * e.outer, e.count,
                   RunTerm{x, outer, e.count}, RunStore{y, outer});
    return;
  }
  const bool packs = e.inner % kWidth == 0 && fits(op.x) && fits(op.y);
  const std::size_t per_block = e.inner / (packs ? kWidth : 1);
  const std::size_t units = op.x.rows() * e.outer * per_block;
  cuda::launch(ctx, ReduceSumFwd::kName, dim3(cuda::grid_for(units, cuda::kThreads)),
               dim3(cuda::kThreads), 0, packs ? &sum_columns<kWidth> : &sum_columns<1>, units,
               cuda::FastDivide(e.outer * per_block), cuda::FastDivide(per_block), e.count, e.inner,
               x, y);
}

void reduce_sum_bwd_kernel(const OpContext& ctx, const ReduceSumBwd& op) {
  if (op.dx.size() == 0) return;
  const Extents e = extents(op.dx, op.axis);
  const bool single = e.inner == 1;
  const bool packs = single ? e.count % kWidth == 0 && fits(op.dx)
                            : e.inner % kWidth == 0 && fits(op.dx) && fits(op.dy);
  const std::size_t v = packs ? kWidth : 1;
  const std::size_t per_block = e.count * e.inner / v;
  const std::size_t units = op.dx.rows() * e.outer * per_block;
  auto* kernel = packs ? (single ? &spread_columns<kWidth, true> : &spread_columns<kWidth, false>)
                       : (single ? &spread_columns<1, true> : &spread_columns<1, false>);
  cuda::launch(ctx, ReduceSumBwd::kName, dim3(cuda::grid_for(units, cuda::kThreads)),
               dim3(cuda::kThreads), 0, kernel, units, cuda::FastDivide(e.outer * per_block),
               cuda::FastDivide(per_block), cuda::FastDivide(single ? 1 : e.inner / v), e.inner,
               cuda::rows_of<const float>(op.dy), cuda::rows_of<float>(op.dx));
}

const OpRegistration<ReduceSumFwd> reduce_sum_fwd_cuda{DeviceType::Cuda, &reduce_sum_fwd_kernel};
const OpRegistration<ReduceSumBwd> reduce_sum_bwd_cuda{DeviceType::Cuda, &reduce_sum_bwd_kernel};

}  // namespace
}  // namespace hugectr
