// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/losses/losses.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/block_sum.cuh"
#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 512;

// A (batch, 1) tensor with strided rows; data is null when it is absent.
template <class T>
struct Column {
  explicit Column(const TensorRef& ref)
      : data(ref.empty() ? nullptr : ref.ptr<T>()), stride(ref.row_stride) {}
  __device__ T& operator[](std::size_t row) const { return data[row * stride]; }
  T* data;
  std::size_t stride;
};

template <class Entry, class T>
struct Batch {
  Column<T> logits, dlogits;
  Column<float> labels, prediction;
  const float *weight, *inv_weight_sum, *loss_scale;  // loss_scale: null when absent
  float grad_scale;
  std::size_t rows, piece;
  double* partial;
  Entry entry;
};

// Floor: 12 bytes read and 8 written a sample in float32, 10 and 6 in 16 bits. logits may be
// dlogits or prediction.
template <class Entry, class T>
__global__ void __launch_bounds__(kThreads) piece_kernel(Batch<Entry, T> batch) {
  const float loss_scale = batch.loss_scale == nullptr ? 1.0f : *batch.loss_scale;
  const float gradient_factor = batch.grad_scale * loss_scale * *batch.inv_weight_sum;
  const std::size_t begin = blockIdx.x * batch.piece;
  const std::size_t end = begin + batch.piece < batch.rows ? begin + batch.piece : batch.rows;
  double sum = 0.0;
  for (std::size_t r = begin + threadIdx.x; r < end; r += kThreads) {
    const float x = widen(batch.logits[r]);
    const float y = batch.labels[r];
    const float w = batch.weight[r];
    const float p = sigmoid(x);
    if (w != 0.0f) sum += static_cast<double>(w * batch.entry.value(x, y));
    if (batch.dlogits.data != nullptr) {
      const float gradient = w != 0.0f ? gradient_factor * w * batch.entry.gradient(x, y) : 0.0f;
      batch.dlogits[r] = narrow<T>(gradient);
    }
    if (batch.prediction.data != nullptr) batch.prediction[r] = p;
  }
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) batch.partial[blockIdx.x] = sum;
}

// One warp.
__global__ void total_kernel(const double* partial, std::size_t pieces, const float* inv_weight_sum,
                             float* loss) {
  double sum = 0.0;
  for (std::size_t i = threadIdx.x; i < pieces; i += 32) sum += partial[i];
  sum = group_sum<32>(sum);
  if (threadIdx.x == 0) {
    *loss = static_cast<float>(sum * static_cast<double>(*inv_weight_sum));
  }
}

template <class T, class Entry>
void run_loss(const OpContext& context, const PointwiseLoss<Entry>& op) {
  const LossTensors& t = op;
  const std::size_t rows = t.logits.rows();
  const std::size_t pieces = t.partial.rows();
  const Batch<Entry, T> batch{Column<T>(t.logits),
                              Column<T>(t.dlogits),
                              Column<float>(t.labels),
                              Column<float>(t.prediction),
                              t.weight.ptr<float>(),
                              t.inv_weight_sum.ptr<float>(),
                              t.loss_scale.empty() ? nullptr : t.loss_scale.ptr<float>(),
                              static_cast<float>(op.grad_scale),
                              rows,
                              samples_per_partial(rows),
                              t.partial.ptr<double>(),
                              op.entry};
  launch(context, op.kName, dim3(static_cast<unsigned>(pieces)), dim3(kThreads), 0,
         &piece_kernel<Entry, T>, batch);
  launch(context, "total of a loss", dim3(1), dim3(32), 0, &total_kernel, batch.partial, pieces,
         batch.inv_weight_sum, t.loss.ptr<float>());
}

template <class Entry>
void loss_kernel(const OpContext& context, const PointwiseLoss<Entry>& op) {
  with_real_type(op.logits.dtype, [&]<class T>(T) { run_loss<T>(context, op); });
}

template <class Entry>
struct OnCuda {
  OpRegistration<PointwiseLoss<Entry>> loss{DeviceType::Cuda, &loss_kernel<Entry>};
};
const OfEach<OnCuda, Losses> on_cuda;

}  // namespace
}  // namespace hugectr::cuda
