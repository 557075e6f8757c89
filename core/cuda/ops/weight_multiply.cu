// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/weight_multiply.hpp"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/group_sum.cuh"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr {
namespace {

constexpr std::size_t kWidth = 4;

// A thread makes V columns of y, all of one slot. Moves 4 (S d + S) bytes a sample; w stays in the
// caches.
template <int V>
__global__ void scale_weights(std::size_t units, cuda::FastDivide per_row,
                              cuda::FastDivide per_slot, cuda::Rows<const float> x,
                              const float* __restrict__ w, cuda::Rows<float> y) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; u < units;
       u += step) {
    std::size_t unit;
    const std::size_t row = per_row.divide(u, unit);
    const float scale = *x.at(row, per_slot.quotient(unit));
    cuda::Pack<float, V> value = cuda::load_pack<V>(w + unit * V);
#pragma unroll
    for (int k = 0; k < V; ++k) value.v[k] *= scale;
    cuda::store_pack<V>(y.at(row, unit * V), value);
  }
}

struct InputTerm {  // of dx[b, s]
  cuda::Rows<const float> dy;
  const float* w;
  cuda::FastDivide slots;
  std::size_t dim;
  __device__ float operator()(std::size_t output, std::size_t j) const {
    std::size_t slot;
    const std::size_t row = slots.divide(output, slot);
    return *dy.at(row, slot * dim + j) * w[slot * dim + j];
  }
};

struct InputStore {
  cuda::Rows<float> dx;
  cuda::FastDivide slots;
  __device__ void operator()(std::size_t output, float sum) const {
    std::size_t slot;
    const std::size_t row = slots.divide(output, slot);
    *dx.at(row, slot) = sum;
  }
};

/// The batch sum of dw for V columns of one slot, in the form sum_tiles() wants.
template <int V>
struct WeightSum {
  using Sum = float;
  static constexpr int kSums = V;
  using Row = cuda::Pack<float, V>;
  cuda::Rows<const float> x, dy;
  cuda::FastDivide per_slot;  // by the groups of a slot
  float* partial;
  std::size_t stride;

  __device__ std::size_t columns(std::size_t group) const { return per_slot.quotient(group); }
  __device__ Row load(std::size_t row, std::size_t group) const {
    return cuda::load_pack<V>(dy.at(row, group * V));
  }
  __device__ void add(const Row& g, std::size_t row, std::size_t, std::size_t slot,
                      float (&sums)[V]) const {
    const float scale = *x.at(row, slot);
#pragma unroll
    for (int k = 0; k < V; ++k) sums[k] += scale * g.v[k];
  }
  __device__ void store(std::size_t piece, std::size_t group, const float (&sums)[V]) const {
#pragma unroll
    for (int k = 0; k < V; ++k) partial[piece * stride + group * V + k] = sums[k];
  }
};

template <int V>
void sum_weights(const OpContext& ctx, const WeightMultiplyBwd& op) {
  const std::size_t dim = op.w.shape[1], columns = op.w.size();
  cuda::sum_tiles(ctx, WeightMultiplyBwd::kName, op.x.rows(), columns / V,
                  WeightSum<V>{cuda::rows_of<const float>(op.x), cuda::rows_of<const float>(op.dy),
                               cuda::FastDivide(dim / V), op.partial.ptr<float>(), columns});
}

void weight_multiply_fwd_kernel(const OpContext& ctx, const WeightMultiplyFwd& op) {
  if (op.y.size() == 0) return;
  const std::size_t dim = op.w.shape[1], columns = op.w.size();
  const bool packs = dim % kWidth == 0 && cuda::packs_fit(op.w.ptr<float>(), 0, kWidth) &&
                     cuda::packs_fit(op.y.ptr<float>(), op.y.row_stride, kWidth);
  const std::size_t v = packs ? kWidth : 1;
  const std::size_t units = op.y.rows() * (columns / v);
  cuda::launch(ctx, WeightMultiplyFwd::kName, dim3(cuda::grid_for(units, cuda::kThreads)),
               dim3(cuda::kThreads), 0, packs ? &scale_weights<kWidth> : &scale_weights<1>, units,
               cuda::FastDivide(columns / v), cuda::FastDivide(dim / v),
               cuda::rows_of<const float>(op.x), op.w.ptr<float>(), cuda::rows_of<float>(op.y));
}

// Reads dy twice: 8 (S d + S) bytes a sample, the second time in part from the L2 cache.
void weight_multiply_bwd_kernel(const OpContext& ctx, const WeightMultiplyBwd& op) {
  const std::size_t slots = op.w.shape[0], dim = op.w.shape[1];
  if (!op.dx.empty()) {
    const cuda::FastDivide by_slots(slots);
    cuda::sum_each(ctx, WeightMultiplyBwd::kName, op.x.rows() * slots, dim,
                   InputTerm{cuda::rows_of<const float>(op.dy), op.w.ptr<float>(), by_slots, dim},
                   InputStore{cuda::rows_of<float>(op.dx), by_slots});
  }
  if (dim % kWidth == 0 && cuda::packs_fit(op.dy.ptr<float>(), op.dy.row_stride, kWidth)) {
    sum_weights<kWidth>(ctx, op);
  } else {
    sum_weights<1>(ctx, op);
  }
  if (op.w.size() > 0) {
    cuda::finish_tiles<float>(ctx, WeightMultiplyBwd::kName, op.partial,
                              cuda::AddToGradient{op.dw.ptr<float>()});
  }
}

const OpRegistration<WeightMultiplyFwd> weight_multiply_fwd_cuda{DeviceType::Cuda,
                                                                 &weight_multiply_fwd_kernel};
const OpRegistration<WeightMultiplyBwd> weight_multiply_bwd_cuda{DeviceType::Cuda,
                                                                 &weight_multiply_bwd_kernel};

}  // namespace
}  // namespace hugectr
