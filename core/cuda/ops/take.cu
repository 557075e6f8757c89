// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/ops/loops/axis_runs.hpp"
#include "core/cpp/ops/take.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

using cuda::FastDivide;
using cuda::Pack;

constexpr std::size_t kIndices = 512;  // of one launch: they travel in its parameters

struct Indices {
  unsigned at[kIndices];
  unsigned count = 0;
};

/// AxisRuns as kernels see them.
struct DeviceRuns {
  explicit DeviceRuns(const AxisRuns& runs)
      : blocks_per_row(runs.blocks_per_row),
        row_stride(runs.row_stride),
        block_size(runs.count * runs.inner),
        step(runs.step) {}
  FastDivide blocks_per_row;
  std::size_t row_stride, block_size, step;

  __device__ std::size_t at(std::size_t block, std::size_t place) const {
    std::size_t in_row;
    const std::size_t row = blocks_per_row.divide(block, in_row);
    return row * row_stride + in_row * block_size + place * step;
  }
};

// Unit: V elements of one picked run.
template <class T, int V>
__global__ void take(std::size_t units, FastDivide per_run, FastDivide picks, Indices indices,
                     std::size_t first, DeviceRuns x, DeviceRuns y, const T* __restrict__ from,
                     T* __restrict__ to) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; u < units;
       u += step) {
    std::size_t column, i;
    const std::size_t block = picks.divide(per_run.divide(u, column), i);
    cuda::store_pack<V>(to + y.at(block, first + i) + column * V,
                        cuda::load_pack<V>(from + x.at(block, indices.at[i]) + column * V));
  }
}

// Unit: V elements of a place of dx, and all that was picked from it.
template <class T, int V>
__global__ void add_picks(std::size_t units, FastDivide per_run, FastDivide places, Indices indices,
                          std::size_t first, DeviceRuns dx, DeviceRuns dy,
                          const T* __restrict__ from, T* __restrict__ to) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; u < units;
       u += step) {
    std::size_t column, place;
    const std::size_t block = places.divide(per_run.divide(u, column), place);
    T* target = to + dx.at(block, place) + column * V;
    Pack<float, V> sum{};
    if (first > 0) sum = cuda::load_widened<V>(target);
    for (unsigned i = 0; i < indices.count; ++i) {
      if (indices.at[i] != place) continue;
      const auto part = cuda::load_widened<V>(from + dy.at(block, first + i) + column * V);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.v[k] += part.v[k];
    }
    cuda::store_narrowed<V>(target, sum);
  }
}

/// Calls f(indices, number of the first) for all of them, a launch's worth at a time.
template <class F>
void for_each_part(const std::vector<std::int64_t>& all, const F& f) {
  for (std::size_t first = 0; first < all.size(); first += kIndices) {
    Indices part;
    part.count = static_cast<unsigned>(std::min(kIndices, all.size() - first));
    for (unsigned i = 0; i < part.count; ++i) part.at[i] = static_cast<unsigned>(all[first + i]);
    f(part, first);
  }
}

/// Calls f with the width in which all runs of both tensors can be read.
template <class T, class F>
void with_run_width(const AxisRuns& runs, const TensorRef& a, const TensorRef& b, const F& f) {
  constexpr int kWidth = 16 / sizeof(T);
  const bool packs = runs.inner % kWidth == 0 &&
                     cuda::packs_fit(a.ptr<T>(), a.row_stride, kWidth) &&
                     cuda::packs_fit(b.ptr<T>(), b.row_stride, kWidth);
  packs ? f(std::integral_constant<int, kWidth>{}) : f(std::integral_constant<int, 1>{});
}

template <class T, int V>
void run_take(const OpContext& ctx, const TakeFwd& op) {
  const AxisRuns x(op.x, op.axis), y(op.y, op.axis);
  for_each_part(op.indices, [&](const Indices& part, std::size_t first) {
    const std::size_t units = y.blocks * part.count * (y.inner / V);
    cuda::launch(ctx, TakeFwd::kName, dim3(cuda::grid_for(units, cuda::kThreads)),
                 dim3(cuda::kThreads), 0, &take<T, V>, units, FastDivide(y.inner / V),
                 FastDivide(part.count), part, first, DeviceRuns(x), DeviceRuns(y), op.x.ptr<T>(),
                 op.y.ptr<T>());
  });
}

template <class T, int V>
void run_add_picks(const OpContext& ctx, const TakeBwd& op) {
  const AxisRuns dx(op.dx, op.axis), dy(op.dy, op.axis);
  const std::size_t units = dx.blocks * dx.count * (dx.inner / V);
  for_each_part(op.indices, [&](const Indices& part, std::size_t first) {
    cuda::launch(ctx, TakeBwd::kName, dim3(cuda::grid_for(units, cuda::kThreads)),
                 dim3(cuda::kThreads), 0, &add_picks<T, V>, units, FastDivide(dx.inner / V),
                 FastDivide(dx.count), part, first, DeviceRuns(dx), DeviceRuns(dy), op.dy.ptr<T>(),
                 op.dx.ptr<T>());
  });
}

void take_fwd_kernel(const OpContext& ctx, const TakeFwd& op) {
  if (op.y.size() == 0) return;
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) {
    with_run_width<T>(AxisRuns(op.x, op.axis), op.x, op.y,
                      [&]<int V>(std::integral_constant<int, V>) { run_take<T, V>(ctx, op); });
  });
}

void take_bwd_kernel(const OpContext& ctx, const TakeBwd& op) {
  if (op.dx.size() == 0) return;
  cuda::with_real_type(op.dx.dtype, [&]<class T>(T) {
    with_run_width<T>(AxisRuns(op.dx, op.axis), op.dx, op.dy,
                      [&]<int V>(std::integral_constant<int, V>) { run_add_picks<T, V>(ctx, op); });
  });
}

const OpRegistration<TakeFwd> take_fwd_cuda{DeviceType::Cuda, &take_fwd_kernel};
const OpRegistration<TakeBwd> take_bwd_cuda{DeviceType::Cuda, &take_bwd_kernel};

}  // namespace
}  // namespace hugectr
