// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/batch_norm.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cuda/primitives/batch_columns.cuh"

namespace hugectr::cuda {
namespace {

template <class T, int V>
struct WeightedRow {
  RowWords<V, T> x;
  float weight;
};

// Weighted sums, and behind them that of the weights.
template <class T, int V>
struct WeightedSums {
  using Row = WeightedRow<T, V>;
  using Value = float;
  static constexpr int kAhead = 4, kValues = 0, kSums = 1, kOfRows = 1, kFew = 1;
  Rows<const T> x;
  RowWeights weight;
  std::size_t n;

  __device__ Row load(std::size_t row, std::size_t column) const {
    return {load_words<V>(x, row, column, n), weight[row]};
  }
  template <class Columns>
  __device__ void add(const Row& row, const Columns&, double* sums) const {
    if (row.weight == 0.0f) return;  // what padding holds does not matter, NaN included
    const auto w = static_cast<double>(row.weight);
    const auto values = row.x.widened();
#pragma unroll
    for (int i = 0; i < V; ++i) sums[i] += w * static_cast<double>(values.v[i]);
    sums[V] += w;
  }
};

template <class T, int V>
struct WeightedSquares {
  using Row = WeightedRow<T, V>;
  using Value = double;
  static constexpr int kAhead = 4, kValues = 1, kSums = 1, kOfRows = 0, kFew = 1;
  WeightedSums<T, V> of;
  const double* totals;

  __device__ Row load(std::size_t row, std::size_t column) const { return of.load(row, column); }
  __device__ void column(std::size_t j, double* mean) const {
    *mean = totals[of.n] > 0.0 ? totals[j] / totals[of.n] : 0.0;
  }
  template <class Columns>
  __device__ void add(const Row& row, const Columns& columns, double* sums) const {
    if (row.weight == 0.0f) return;
    const auto values = row.x.widened();
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const double distance = static_cast<double>(values.v[i]) - columns.of[0][i];
      sums[i] += static_cast<double>(row.weight) * distance * distance;
    }
  }
};

struct NormRule {
  static constexpr int kValues = 2;
  const float *gamma, *beta;

  __device__ void column(std::size_t j, float* values) const {
    values[0] = gamma[j];
    values[1] = beta[j];
  }
  __device__ float apply(float, float h, const float* values) const {
    return values[0] * h + values[1];
  }
  __device__ float through(float dy, float, float) const { return dy; }
  __device__ float factor(std::size_t j, float inv_deviation) const {
    return gamma[j] * inv_deviation;
  }
  __device__ float gradient(float, float, float left, float gain) const { return gain * left; }
};

struct OverwriteAndAdd {
  double* dsums;
  float *dbeta, *dgamma;
  std::size_t n;
  __device__ void operator()(std::size_t column, double sum) const {
    dsums[column] = sum;
    float& target = column < n ? dbeta[column] : dgamma[column - n];
    target += static_cast<float>(sum);
  }
};

constexpr unsigned kStatisticsThreads = 128;

__global__ void __launch_bounds__(kStatisticsThreads) statistics_kernel(BatchNormArrays arrays) {
  const std::size_t j = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (j < arrays.n) batch_norm_statistics_of(arrays, j);
}

// f(WeightedSums<T, V>) for an op with x and weight.
template <class Op, class F>
void with_weighted_sums(const Op& op, const F& f) {
  const TensorRef x = last_axis_rows(op.x);
  with_packs(
      [&]<class T, int V>(T, std::integral_constant<int, V> width) {
        f(width,
          WeightedSums<T, V>{rows_of<const T>(x), RowWeights(op.weight, x.rows()), x.row_size()});
      },
      x);
}

void batch_norm_sums_kernel(const OpContext& ctx, const BatchNormSums& op) {
  const std::size_t rows = last_axis_rows(op.x).rows();
  with_weighted_sums(op, [&]<int V>(std::integral_constant<int, V>, const auto& body) {
    sum_batch<V>(ctx, BatchNormSums::kName, rows, body.n, body, Overwrite{op.sums.ptr<double>()});
  });
}

void batch_norm_squares_kernel(const OpContext& ctx, const BatchNormSquares& op) {
  const std::size_t rows = last_axis_rows(op.x).rows();
  with_weighted_sums(
      op, [&]<class T, int V>(std::integral_constant<int, V>, const WeightedSums<T, V>& of) {
        const WeightedSquares<T, V> body{of, op.sums.ptr<double>()};
        sum_batch<V>(ctx, BatchNormSquares::kName, rows, of.n, body,
                     Overwrite{op.squares.ptr<double>()});
      });
}

void batch_norm_statistics_kernel(const OpContext& ctx, const BatchNormStatistics& op) {
  const std::size_t n = op.squares.size();
  const auto grid = static_cast<unsigned>((n + kStatisticsThreads - 1) / kStatisticsThreads);
  launch(ctx, "batch_norm_statistics", dim3(grid), dim3(kStatisticsThreads), 0, &statistics_kernel,
         op.arrays());
}

void batch_norm_fwd_kernel(const OpContext& ctx, const BatchNormFwd& op) {
  const NormRule rule{op.gamma.ptr<float>(), op.beta.ptr<float>()};
  run_batch_forward(ctx, op, [&](auto) { return rule; });
}

void batch_norm_bwd_sums_kernel(const OpContext& ctx, const BatchNormBwdSums& op) {
  run_gradient_sums(
      ctx, op, [](auto) { return NormRule{}; },
      OverwriteAndAdd{op.dsums.ptr<double>(), op.dbeta.ptr<float>(), op.dgamma.ptr<float>(),
                      last_axis_rows(op.x).row_size()});
}

void batch_norm_bwd_kernel(const OpContext& ctx, const BatchNormBwd& op) {
  const NormRule rule{op.gamma.ptr<float>(), nullptr};
  run_batch_gradient(ctx, op, [&](auto) { return rule; });
}

const OpRegistration<BatchNormSums> sums_cuda{DeviceType::Cuda, &batch_norm_sums_kernel};
const OpRegistration<BatchNormSquares> squares_cuda{DeviceType::Cuda, &batch_norm_squares_kernel};
const OpRegistration<BatchNormStatistics> statistics_cuda{DeviceType::Cuda,
                                                          &batch_norm_statistics_kernel};
const OpRegistration<BatchNormFwd> fwd_cuda{DeviceType::Cuda, &batch_norm_fwd_kernel};
const OpRegistration<BatchNormBwdSums> bwd_sums_cuda{DeviceType::Cuda, &batch_norm_bwd_sums_kernel};
const OpRegistration<BatchNormBwd> bwd_cuda{DeviceType::Cuda, &batch_norm_bwd_kernel};

}  // namespace
}  // namespace hugectr::cuda
