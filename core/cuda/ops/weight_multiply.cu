// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/weight_multiply.hpp"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/group_sum.cuh"
#include "core/cuda/primitives/row_tail.cuh"

namespace hugectr {
namespace {

using cuda::FastDivide;
using cuda::Pack;
using cuda::Rows;

/// V floats of w, which begins where 16-byte accesses may when V > 1.
template <int V>
__device__ Pack<float, V> load_weights(const float* w) {
  constexpr int kPart = V < 4 ? V : 4;
  Pack<float, V> result;
#pragma unroll
  for (int i = 0; i < V; i += kPart) {
    const auto part = cuda::load_pack<kPart>(w + i);
#pragma unroll
    for (int k = 0; k < kPart; ++k) result.v[i + k] = part.v[k];
  }
  return result;
}

// A thread makes V columns of y, all of one slot. Moves S d + S elements a sample; w stays in the
// caches.
template <class T, int V>
__global__ void scale_weights(std::size_t units, FastDivide per_row, FastDivide per_slot,
                              Rows<const T> x, const float* __restrict__ w, Rows<T> y) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; u < units;
       u += step) {
    std::size_t unit;
    const std::size_t row = per_row.divide(u, unit);
    const float scale = cuda::widen(*x.at(row, per_slot.quotient(unit)));
    Pack<float, V> value = load_weights<V>(w + unit * V);
#pragma unroll
    for (int k = 0; k < V; ++k) value.v[k] *= scale;
    cuda::store_narrowed<V>(y.at(row, unit * V), value);
  }
}

/// Pack j of the sum that is dx[b, s].
template <class T, int V>
struct InputTerm {
  Rows<const T> dy;
  const float* w;
  FastDivide slots;
  std::size_t dim;
  __device__ float operator()(std::size_t output, std::size_t j) const {
    std::size_t slot;
    const std::size_t row = slots.divide(output, slot), column = slot * dim + j * V;
    const auto g = cuda::load_widened<V>(dy.at(row, column));
    const auto weights = load_weights<V>(w + column);
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < V; ++k) sum += g.v[k] * weights.v[k];
    return sum;
  }
};

template <class T>
struct InputStore {
  Rows<T> dx;
  FastDivide slots;
  __device__ void operator()(std::size_t output, float sum) const {
    std::size_t slot;
    const std::size_t row = slots.divide(output, slot);
    *dx.at(row, slot) = cuda::narrow<T>(sum);
  }
};

/// The batch sum of dw for V columns of one slot, in the form sum_tiles() wants.
template <class T, int V>
struct WeightSum {
  using Sum = float;
  static constexpr int kSums = V;
  using Row = Pack<T, V>;
  Rows<const T> x, dy;
  FastDivide per_slot;  // by the groups of a slot
  float* partial;
  std::size_t stride;

  __device__ std::size_t columns(std::size_t group) const { return per_slot.quotient(group); }
  __device__ Row load(std::size_t row, std::size_t group) const {
    return cuda::load_pack<V>(dy.at(row, group * V));
  }
  __device__ void add(const Row& g, std::size_t row, std::size_t, std::size_t slot,
                      float (&sums)[V]) const {
    const float scale = cuda::widen(*x.at(row, slot));
#pragma unroll
    for (int k = 0; k < V; ++k) sums[k] += scale * cuda::widen(g.v[k]);
  }
  __device__ void store(std::size_t piece, std::size_t group, const float (&sums)[V]) const {
#pragma unroll
    for (int k = 0; k < V; ++k) partial[piece * stride + group * V + k] = sums[k];
  }
};

/// f(T{}, V) for packs of dy or y that lie in one slot.
template <class F>
void with_slot_packs(const TensorRef& y, const TensorRef& w, const F& f) {
  const bool weights_fit = cuda::packs_fit(w.ptr<float>(), 0, 4);
  cuda::with_real_type(y.dtype, [&]<class T>(T type) {
    cuda::with_width<T>(
        weights_fit ? w.shape[1] : 1,
        [&]<int V>(std::integral_constant<int, V> width) { f(type, width); }, y);
  });
}

void weight_multiply_fwd_kernel(const OpContext& ctx, const WeightMultiplyFwd& op) {
  if (op.y.size() == 0) return;
  const std::size_t dim = op.w.shape[1], columns = op.w.size();
  with_slot_packs(op.y, op.w, [&]<class T, int V>(T, std::integral_constant<int, V>) {
    const std::size_t units = op.y.rows() * (columns / V);
    cuda::launch(ctx, WeightMultiplyFwd::kName, dim3(cuda::grid_for(units, cuda::kThreads)),
                 dim3(cuda::kThreads), 0, &scale_weights<T, V>, units, FastDivide(columns / V),
                 FastDivide(dim / V), cuda::rows_of<const T>(op.x), op.w.ptr<float>(),
                 cuda::rows_of<T>(op.y));
  });
}

// Reads dy twice, the second time in part from the L2 cache.
void weight_multiply_bwd_kernel(const OpContext& ctx, const WeightMultiplyBwd& op) {
  if (op.w.size() == 0) return;
  const std::size_t slots = op.w.shape[0], dim = op.w.shape[1], columns = op.w.size();
  with_slot_packs(op.dy, op.w, [&]<class T, int V>(T, std::integral_constant<int, V>) {
    const auto dy = cuda::rows_of<const T>(op.dy);
    if (!op.dx.empty()) {
      const FastDivide by_slots(slots);
      cuda::sum_each(ctx, WeightMultiplyBwd::kName, op.x.rows() * slots, dim / V,
                     InputTerm<T, V>{dy, op.w.ptr<float>(), by_slots, dim},
                     InputStore<T>{cuda::rows_of<T>(op.dx), by_slots});
    }
    cuda::sum_tiles(ctx, WeightMultiplyBwd::kName, op.x.rows(), columns / V,
                    WeightSum<T, V>{cuda::rows_of<const T>(op.x), dy, FastDivide(dim / V),
                                    op.partial.ptr<float>(), columns});
  });
  cuda::finish_tiles<float>(ctx, WeightMultiplyBwd::kName, op.partial,
                            cuda::AddToGradient{op.dw.ptr<float>()});
}

const OpRegistration<WeightMultiplyFwd> weight_multiply_fwd_cuda{DeviceType::Cuda,
                                                                 &weight_multiply_fwd_kernel};
const OpRegistration<WeightMultiplyBwd> weight_multiply_bwd_cuda{DeviceType::Cuda,
                                                                 &weight_multiply_bwd_kernel};

}  // namespace
}  // namespace hugectr
