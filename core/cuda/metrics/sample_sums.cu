// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/metrics/metrics.hpp"
#include "core/cpp/metrics/sample_sums.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/primitives/block_sum.cuh"
#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

// A (batch, n) tensor with strided rows.
template <class T>
struct Columns {
  explicit Columns(const TensorRef& ref) : data(ref.ptr<T>()), stride(ref.row_stride) {}
  __device__ T operator()(std::size_t row, std::size_t column = 0) const {
    return data[row * stride + column];
  }
  const T* data;
  std::size_t stride;
};

template <class Entry, class T>
struct Samples {
  Columns<T> scores;
  Columns<float> labels;
  const float* weights;
  std::size_t rows, columns, piece;
  Entry entry;
};

// Floor: 12 bytes read a sample in float32, 10 in 16 bits. partial: kSums numbers a block.
template <class Entry, class T>
__global__ void __launch_bounds__(kThreads)
    sample_sums_kernel(Samples<Entry, T> samples, double* partial) {
  const std::size_t begin = blockIdx.x * samples.piece;
  const std::size_t end =
      begin + samples.piece < samples.rows ? begin + samples.piece : samples.rows;
  double sums[Entry::kSums] = {};
  for (std::size_t r = begin + threadIdx.x; r < end; r += kThreads) {
    const float weight = samples.weights[r];
    if (weight == 0.0f) continue;
    const auto score = [&](std::size_t j) { return widen(samples.scores(r, j)); };
    add_sample(samples.entry, samples.columns, score, samples.labels(r), weight, sums);
  }
  for (std::size_t k = 0; k < Entry::kSums; ++k) {
    const double sum = block_sum<kThreads>(sums[k]);
    if (threadIdx.x == 0) partial[blockIdx.x * Entry::kSums + k] = sum;
    __syncthreads();
  }
}

// One warp.
__global__ void add_pieces_kernel(const double* partial, std::size_t pieces, std::size_t count,
                                  double* sums) {
  for (std::size_t k = 0; k < count; ++k) {
    double sum = 0.0;
    for (std::size_t i = threadIdx.x; i < pieces; i += 32) sum += partial[i * count + k];
    sum = group_sum<32>(sum);
    if (threadIdx.x == 0) sums[k] += sum;
  }
}

template <class Entry>
void sums_kernel(const OpContext& context, const SampleSums<Entry>& op) {
  const TensorRef &scores = op.scores, &labels = op.labels, &weights = op.weights, &sums = op.sums;
  const std::size_t rows = scores.rows(), pieces = partial_rows(rows);
  const Scratch scratch(context, pieces * Entry::kSums * sizeof(double));
  auto* const partial = static_cast<double*>(scratch.data());
  with_real_type(scores.dtype, [&]<class T>(T) {
    const Samples<Entry, T> samples{Columns<T>(scores),
                                    Columns<float>(labels),
                                    weights.ptr<float>(),
                                    rows,
                                    scores.shape[1],
                                    samples_per_partial(rows),
                                    op.entry};
    launch(context, op.kName, dim3(static_cast<unsigned>(pieces)), dim3(kThreads), 0,
           &sample_sums_kernel<Entry, T>, samples, partial);
  });
  launch(context, "total of a metric", dim3(1), dim3(32), 0, &add_pieces_kernel, partial, pieces,
         Entry::kSums, sums.ptr<double>());
}

template <class Entry>
struct OnCuda {};
template <SumsSamples Entry>
struct OnCuda<Entry> {
  OpRegistration<SampleSums<Entry>> sums{DeviceType::Cuda, &sums_kernel<Entry>};
};
const OfEach<OnCuda, Metrics> on_cuda;

}  // namespace
}  // namespace hugectr::cuda
