// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/sequence_mask.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

using cuda::FastDivide;
using cuda::Rows;

template <class T>
__global__ void fill_mask(std::size_t units, FastDivide per_sample, FastDivide columns,
                          Rows<const float> from, Rows<const float> to, Rows<T> y) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; u < units;
       u += step) {
    std::size_t place, j;
    const std::size_t b = per_sample.divide(u, place);
    const std::size_t i = columns.divide(place, j);
    const bool there =
        static_cast<float>(i) < *from.at(b, 0) && static_cast<float>(j) < *to.at(b, 0);
    *y.at(b, place) = cuda::narrow<T>(there ? 1.0f : 0.0f);
  }
}

void sequence_mask_kernel(const OpContext& ctx, const SequenceMask& op) {
  const std::size_t units = op.y.size();
  cuda::with_real_type(op.y.dtype, [&]<class T>(T) {
    cuda::launch(ctx, SequenceMask::kName, dim3(cuda::grid_for(units, cuda::kThreads)),
                 dim3(cuda::kThreads), 0, &fill_mask<T>, units, FastDivide(op.y.row_size()),
                 FastDivide(op.y.shape[3]), cuda::rows_of<const float>(op.from),
                 cuda::rows_of<const float>(op.to), cuda::rows_of<T>(op.y));
  });
}

const OpRegistration<SequenceMask> sequence_mask_cuda{DeviceType::Cuda, &sequence_mask_kernel};

}  // namespace
}  // namespace hugectr
