// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/losses/loss_weights.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/block_sum.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

// Floor: 8 bytes read and 4 written a sample.
__global__ void __launch_bounds__(kThreads)
    weight_product_kernel(const float* weight, const float* column, std::size_t stride,
                          std::size_t rows, std::size_t piece, float* product, double* partial) {
  const std::size_t begin = blockIdx.x * piece;
  const std::size_t end = begin + piece < rows ? begin + piece : rows;
  double sum = 0.0;
  for (std::size_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const float w = weight[i];
    const float value = w != 0.0f ? w * column[i * stride] : 0.0f;
    product[i] = value;
    sum += static_cast<double>(value);
  }
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One warp.
__global__ void sum_kernel(const double* partial, std::size_t pieces, double* total) {
  double sum = 0.0;
  for (std::size_t i = threadIdx.x; i < pieces; i += 32) sum += partial[i];
  sum = group_sum<32>(sum);
  if (threadIdx.x == 0) *total = sum;
}

void weight_product(const OpContext& context, const WeightProduct& op) {
  const std::size_t rows = op.weight.rows(), pieces = op.partial.rows();
  launch(context, op.kName, dim3(static_cast<unsigned>(pieces)), dim3(kThreads), 0,
         &weight_product_kernel, op.weight.ptr<float>(), op.column.ptr<float>(),
         op.column.row_stride, rows, samples_per_partial(rows), op.product.ptr<float>(),
         op.partial.ptr<double>());
  launch(context, "sum of weights", dim3(1), dim3(32), 0, &sum_kernel, op.partial.ptr<double>(),
         pieces, op.sum.ptr<double>());
}

__global__ void inverse_sum_kernel(const double* sum, float* inverse) {
  *inverse = *sum > 0.0 ? static_cast<float>(1.0 / *sum) : 0.0f;
}

void inverse_sum(const OpContext& context, const InverseSum& op) {
  launch(context, op.kName, dim3(1), dim3(1), 0, &inverse_sum_kernel, op.sum.ptr<double>(),
         op.inverse.ptr<float>());
}

// Floor: 4 bytes read and written a label.
__global__ void __launch_bounds__(kThreads)
    known_labels_kernel(const float* labels, std::size_t stride, const float* weight,
                        std::size_t rows, std::size_t columns, float least, float* known) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kThreads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x; i < rows;
       i += step) {
    for (std::size_t j = 0; j < columns; ++j) {
      known[j * rows + i] = labels[i * stride + j] >= least ? weight[i] : 0.0f;
    }
  }
}

void known_labels(const OpContext& context, const KnownLabels& op) {
  const std::size_t rows = op.labels.rows();
  launch(context, op.kName, dim3(grid_for(rows, kThreads)), dim3(kThreads), 0, &known_labels_kernel,
         op.labels.ptr<float>(), op.labels.row_stride, op.weight.ptr<float>(), rows,
         op.labels.shape[1], static_cast<float>(op.least), op.known.ptr<float>());
}

struct Losses {
  const float* loss[kMostLosses];
  float weight[kMostLosses];
  std::size_t count;
};

__global__ void total_loss_kernel(const __grid_constant__ Losses losses, float* total) {
  float sum = 0.0f;
  for (std::size_t t = 0; t < losses.count; ++t) sum += losses.weight[t] * *losses.loss[t];
  *total = sum;
}

void total_loss(const OpContext& context, const TotalLoss& op) {
  Losses losses{};
  losses.count = op.losses.size();
  for (std::size_t t = 0; t < losses.count; ++t) {
    losses.loss[t] = op.losses[t].ptr<float>();
    losses.weight[t] = static_cast<float>(op.weights[t]);
  }
  launch(context, op.kName, dim3(1), dim3(1), 0, &total_loss_kernel, losses, op.total.ptr<float>());
}

const OpRegistration<WeightProduct> weight_product_cuda{DeviceType::Cuda, &weight_product};
const OpRegistration<InverseSum> inverse_sum_cuda{DeviceType::Cuda, &inverse_sum};
const OpRegistration<KnownLabels> known_labels_cuda{DeviceType::Cuda, &known_labels};
const OpRegistration<TotalLoss> total_loss_cuda{DeviceType::Cuda, &total_loss};

}  // namespace
}  // namespace hugectr::cuda
