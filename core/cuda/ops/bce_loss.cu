// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/bce_loss.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/sigmoid.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/block_sum.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 512;

// A (batch, 1) tensor with strided rows; data is null when it is absent.
struct Column {
  explicit Column(const TensorRef& ref)
      : data(ref.empty() ? nullptr : ref.ptr<float>()), stride(ref.row_stride) {}
  __device__ float& operator[](std::size_t row) const { return data[row * stride]; }
  float* data;
  std::size_t stride;
};

struct Batch {
  Column logits, labels, dlogits, prediction;
  const float *weight, *inv_weight_sum;
  float grad_scale;
  std::size_t rows, piece;
  double* partial;
};

// Floor: 12 bytes read and 8 written a sample. logits may be dlogits or prediction.
__global__ void __launch_bounds__(kThreads) bce_piece_kernel(Batch batch) {
  const float gradient_factor = batch.grad_scale * *batch.inv_weight_sum;
  const std::size_t begin = blockIdx.x * batch.piece;
  const std::size_t end = begin + batch.piece < batch.rows ? begin + batch.piece : batch.rows;
  double sum = 0.0;
  for (std::size_t r = begin + threadIdx.x; r < end; r += kThreads) {
    const float x = batch.logits[r];
    const float y = batch.labels[r];
    const float w = batch.weight[r];
    const float p = sigmoid(x);
    if (w != 0.0f) sum += static_cast<double>(w * bce_value(x, y));
    if (batch.dlogits.data != nullptr) {
      batch.dlogits[r] = w != 0.0f ? gradient_factor * w * (p - y) : 0.0f;
    }
    if (batch.prediction.data != nullptr) batch.prediction[r] = p;
  }
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) batch.partial[blockIdx.x] = sum;
}

// One warp.
__global__ void bce_total_kernel(const double* partial, std::size_t pieces,
                                 const float* inv_weight_sum, float* loss) {
  double sum = 0.0;
  for (std::size_t i = threadIdx.x; i < pieces; i += 32) sum += partial[i];
  sum = group_sum<32>(sum);
  if (threadIdx.x == 0) {
    *loss = static_cast<float>(sum * static_cast<double>(*inv_weight_sum));
  }
}

void bce_loss_kernel(const OpContext& context, const BceLoss& op) {
  const std::size_t rows = op.logits.rows();
  const std::size_t pieces = op.partial.rows();
  const Batch batch{Column(op.logits),
                    Column(op.labels),
                    Column(op.dlogits),
                    Column(op.prediction),
                    op.weight.ptr<float>(),
                    op.inv_weight_sum.ptr<float>(),
                    static_cast<float>(op.grad_scale),
                    rows,
                    samples_per_partial(rows),
                    op.partial.ptr<double>()};
  launch(context, "bce_loss", dim3(static_cast<unsigned>(pieces)), dim3(kThreads), 0,
         &bce_piece_kernel, batch);
  launch(context, "bce_loss total", dim3(1), dim3(32), 0, &bce_total_kernel, batch.partial, pieces,
         batch.inv_weight_sum, op.loss.ptr<float>());
}

const OpRegistration<BceLoss> bce_loss_cuda{DeviceType::Cuda, &bce_loss_kernel};

}  // namespace
}  // namespace hugectr::cuda
