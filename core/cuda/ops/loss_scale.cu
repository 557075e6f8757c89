// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/loss_scale.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {
namespace {

// All bits of the exponent set: infinite or not a number.
__device__ bool overflows(float value) {
  return (__float_as_uint(value) & 0x7f800000u) == 0x7f800000u;
}
__device__ bool overflows(Float16 value) { return (value.bits & 0x7c00u) == 0x7c00u; }
__device__ bool overflows(BFloat16 value) { return (value.bits & 0x7f80u) == 0x7f80u; }

// Floor: reads every element once. All who find something store the same number.
template <int V, class T>
__global__ void __launch_bounds__(kThreads)
    find_overflow_kernel(ElementUnits units, Rows<const T> x, float* overflow) {
  bool any = false;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kThreads;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x;
       u < units.count; u += step) {
    std::size_t column;
    const std::size_t row = units.per_row.divide(u, column);
    column *= V;
    if (column + V <= units.row_size) {
      const Pack<T, V> pack = load_pack<V>(x.at(row, column));
#pragma unroll
      for (int i = 0; i < V; ++i) any |= overflows(pack.v[i]);
    } else {
      for (; column < units.row_size; ++column) any |= overflows(*x.at(row, column));
    }
  }
  if (any) *overflow = 1.0f;
}

template <int V, class T>
void look(const OpContext& context, const TensorRef& x, bool flat, float* overflow) {
  const ElementUnits units(flat ? 1 : x.rows(), flat ? x.size() : x.row_size(), V);
  launch(context, FindOverflow::kName, dim3(grid_for(units.count, 4 * kThreads)), dim3(kThreads), 0,
         &find_overflow_kernel<V, T>, units, rows_of<const T>(x), overflow);
}

void find_overflow(const OpContext& context, const FindOverflow& op) {
  float* overflow = op.overflow.ptr<float>();
  context.stream->fill_zero(overflow, sizeof(float));
  for (const TensorRef& x : op.xs) {
    if (x.size() == 0) continue;
    with_real_type(x.dtype, [&]<class T>(T) {
      constexpr int kV = 16 / sizeof(T);
      const bool flat = x.contiguous();
      if (packs_fit(x.ptr<T>(), flat ? 0 : x.row_stride, kV)) {
        look<kV, T>(context, x, flat, overflow);
      } else {
        look<1, T>(context, x, flat, overflow);
      }
    });
  }
}

__global__ void loss_scale_step_kernel(const float* overflow, bool dynamic, std::int64_t interval,
                                       float* scale, float* unscale, std::int64_t* good,
                                       std::int64_t* skipped) {
  loss_scale_step(*overflow > 0.0f, dynamic, interval, *scale, *unscale, *good, *skipped);
}

void run_loss_scale_step(const OpContext& context, const LossScaleStep& op) {
  launch(context, LossScaleStep::kName, dim3(1), dim3(1), 0, &loss_scale_step_kernel,
         op.overflow.ptr<float>(), op.dynamic, op.interval, op.scale.ptr<float>(),
         op.unscale.ptr<float>(), op.good.ptr<std::int64_t>(), op.skipped.ptr<std::int64_t>());
}

const OpRegistration<FindOverflow> find_overflow_cuda{DeviceType::Cuda, &find_overflow};
const OpRegistration<LossScaleStep> loss_scale_step_cuda{DeviceType::Cuda, &run_loss_scale_step};

}  // namespace
}  // namespace hugectr::cuda
