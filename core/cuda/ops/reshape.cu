// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/reshape.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

// Unit u holds elements u * V .. u * V + V - 1 of both tensors, inside one row of each.
// Reads and writes every element once.
template <int V, class T>
__global__ void copy_units(std::size_t units, cuda::FastDivide x_row, cuda::FastDivide y_row,
                           cuda::Rows<const T> x, cuda::Rows<T> y) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; u < units;
       u += step) {
    std::size_t x_column, y_column;
    const std::size_t from = x_row.divide(u, x_column), to = y_row.divide(u, y_column);
    cuda::store_pack<V>(y.at(to, y_column * V), cuda::load_pack<V>(x.at(from, x_column * V)));
  }
}

template <class T>
void copy(const OpContext& ctx, const ReshapeFwd& op) {
  constexpr int kWidth = 16 / sizeof(T);
  const std::size_t size = op.x.size();
  const auto row = [](const TensorRef& t) { return t.contiguous() ? t.size() : t.row_size(); };
  const auto fits = [&](const TensorRef& t) {
    return row(t) % kWidth == 0 &&
           cuda::packs_fit(t.ptr<T>(), t.contiguous() ? 0 : t.row_stride, kWidth);
  };
  const bool packs = fits(op.x) && fits(op.y);
  const std::size_t v = packs ? kWidth : 1;
  cuda::launch(ctx, ReshapeFwd::kName, dim3(cuda::grid_for(size / v, cuda::kThreads)),
               dim3(cuda::kThreads), 0, packs ? &copy_units<kWidth, T> : &copy_units<1, T>,
               size / v, cuda::FastDivide(row(op.x) / v), cuda::FastDivide(row(op.y) / v),
               cuda::rows_of<const T>(op.x), cuda::rows_of<T>(op.y));
}

void reshape_fwd_kernel(const OpContext& ctx, const ReshapeFwd& op) {
  if (op.x.size() == 0) return;
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) { copy<T>(ctx, op); });
}

const OpRegistration<ReshapeFwd> reshape_fwd_cuda{DeviceType::Cuda, &reshape_fwd_kernel};

}  // namespace
}  // namespace hugectr
