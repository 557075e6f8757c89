// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/losses/losses.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/block_sum.cuh"
#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 512;

// A (batch, n) tensor with strided rows; data is null when it is absent.
template <class T>
struct Rows2d {
  explicit Rows2d(const TensorRef& ref)
      : data(ref.empty() ? nullptr : ref.ptr<T>()), stride(ref.row_stride) {}
  __device__ T* operator[](std::size_t row) const {
    return data == nullptr ? nullptr : data + row * stride;
  }
  T* data;
  std::size_t stride;
};

// Weight of each pair: its target weight's part of the mean over them. An argument of the kernel.
template <class Entry>
struct PairWeights {
  __device__ float operator[](std::size_t) const { return 1.0f; }
};
template <OfPairs Entry>
struct PairWeights<Entry> {
  __device__ float operator[](std::size_t j) const { return share[j]; }
  float share[kMostLabels];
};

template <class Entry>
PairWeights<Entry> pair_weights(const CatalogueLoss<Entry>& op) {
  PairWeights<Entry> weights;
  if constexpr (OfPairs<Entry>) {
    const std::size_t n = op.logits.shape[1];
    for (std::size_t j = 0; j < n; ++j) {
      const double weight = op.target_weights.empty() ? 1.0 : op.target_weights[j];
      weights.share[j] = static_cast<float>(weight / static_cast<double>(n));
    }
  }
  return weights;
}

template <class Entry, class T>
struct Batch {
  Rows2d<T> logits, dlogits;
  Rows2d<float> labels, prediction, score;
  const float *weight, *inv_weight_sum, *loss_scale;  // loss_scale: null when absent
  float grad_scale;
  std::size_t rows, columns, piece;
  double* partial;
  Entry entry;
  PairWeights<Entry> pair_weights;
};

// What loss_of_sample asks of a row.
template <class T>
struct ReadRow {
  const T* row;
  __device__ float operator()(std::size_t j) const { return widen(row[j]); }
};
template <class Entry>
struct ReadPairWeight {
  const PairWeights<Entry>& weights;
  __device__ float operator()(std::size_t j) const { return weights[j]; }
};
template <class T>
struct WriteRow {
  T* dlogits;
  float* prediction;
  float weight, gradient_factor;
  __device__ void operator()(std::size_t j, float gradient, float p) const {
    if (dlogits != nullptr) {
      dlogits[j] = narrow<T>(weight != 0.0f ? gradient_factor * weight * gradient : 0.0f);
    }
    if (prediction != nullptr) prediction[j] = p;
  }
};

// Floor: 12 bytes read and 8 written a sample of one logit in float32, 10 and 6 in 16 bits. logits
// may be dlogits or prediction.
template <class Entry, class T>
__global__ void __launch_bounds__(kThreads)
    piece_kernel(const __grid_constant__ Batch<Entry, T> batch) {
  const float loss_scale = batch.loss_scale == nullptr ? 1.0f : *batch.loss_scale;
  const float gradient_factor = batch.grad_scale * loss_scale * *batch.inv_weight_sum;
  const std::size_t begin = blockIdx.x * batch.piece;
  const std::size_t end = begin + batch.piece < batch.rows ? begin + batch.piece : batch.rows;
  double sum = 0.0;
  for (std::size_t r = begin + threadIdx.x; r < end; r += kThreads) {
    const float w = batch.weight[r];
    const ReadRow<T> logit{batch.logits[r]};
    if constexpr (OfClasses<Entry>) {
      if (batch.score.data != nullptr) *batch.score[r] = logit(1) - logit(0);
    }
    const float value =
        loss_of_sample(batch.entry, batch.columns, logit, ReadRow<float>{batch.labels[r]},
                       ReadPairWeight<Entry>{batch.pair_weights},
                       WriteRow<T>{batch.dlogits[r], batch.prediction[r], w, gradient_factor});
    if (w != 0.0f) sum += static_cast<double>(w * value);
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
void run_loss(const OpContext& context, const CatalogueLoss<Entry>& op) {
  const LossTensors& t = op;
  const std::size_t rows = t.logits.rows();
  const std::size_t pieces = t.partial.rows();
  const Batch<Entry, T> batch{Rows2d<T>(t.logits),
                              Rows2d<T>(t.dlogits),
                              Rows2d<float>(t.labels),
                              Rows2d<float>(t.prediction),
                              Rows2d<float>(t.score),
                              t.weight.ptr<float>(),
                              t.inv_weight_sum.ptr<float>(),
                              t.loss_scale.empty() ? nullptr : t.loss_scale.ptr<float>(),
                              static_cast<float>(op.grad_scale),
                              rows,
                              t.logits.shape[1],
                              samples_per_partial(rows),
                              t.partial.ptr<double>(),
                              op.entry,
                              pair_weights(op)};
  launch(context, op.kName, dim3(static_cast<unsigned>(pieces)), dim3(kThreads), 0,
         &piece_kernel<Entry, T>, batch);
  launch(context, "total of a loss", dim3(1), dim3(32), 0, &total_kernel, batch.partial, pieces,
         batch.inv_weight_sum, t.loss.ptr<float>());
}

template <class Entry>
void loss_kernel(const OpContext& context, const CatalogueLoss<Entry>& op) {
  with_real_type(op.logits.dtype, [&]<class T>(T) { run_loss<T>(context, op); });
}

template <class Entry>
struct OnCuda {
  OpRegistration<CatalogueLoss<Entry>> loss{DeviceType::Cuda, &loss_kernel<Entry>};
};
const OfEach<OnCuda, Losses> on_cuda;

}  // namespace
}  // namespace hugectr::cuda
