// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/batch_norm.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cuda/primitives/batch_columns.cuh"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/row_tail.cuh"

namespace hugectr::cuda {
namespace {
struct NoColumns {};

// Weighted sums; the group behind the columns, a column of ones, sums the weights.
template <class T, int kVec>
struct WeightedSums {
  using Sum = double;
  static constexpr int kSums = kVec;
  struct Row {
    Pack<T, kVec> x;
    float weight;
  };
  Rows<const T> x;
  RowWeights weight;
  std::size_t n, packs;
  double* partial;
  std::size_t partial_stride;

  __device__ NoColumns columns(std::size_t) const { return {}; }
  __device__ Row load(std::size_t row, std::size_t group) const {
    Row loaded{{}, weight[row]};
    if (group < packs) loaded.x = load_row_pack<kVec>(x.at(row, 0), group * kVec, n);
    return loaded;
  }
  __device__ void add(const Row& loaded, std::size_t, std::size_t group, NoColumns,
                      double* sums) const {
    if (loaded.weight == 0.0f) return;  // what padding holds does not matter, NaN included
    const double w = static_cast<double>(loaded.weight);
    if (group == packs) {
      sums[0] += w;
      return;
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) sums[i] += w * static_cast<double>(widen(loaded.x.v[i]));
  }
  __device__ void store(std::size_t piece, std::size_t group, const double* sums) const {
    double* target = partial + piece * partial_stride;
    if (group == packs) {
      target[n] = sums[0];
      return;
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      if (group * kVec + i < n) target[group * kVec + i] = sums[i];
    }
  }
};

template <class T, int kVec>
struct WeightedSquares {
  using Sum = double;
  static constexpr int kSums = kVec;
  struct Row {
    Pack<T, kVec> x;
    float weight;
  };
  struct Columns {
    double mean[kVec];
  };
  Rows<const T> x;
  RowWeights weight;
  const double* totals;
  std::size_t n;
  double* partial;
  std::size_t partial_stride;

  __device__ Columns columns(std::size_t group) const {
    Columns result;
    const double count = totals[n];
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const std::size_t column = group * kVec + i;
      result.mean[i] = count > 0.0 && column < n ? totals[column] / count : 0.0;
    }
    return result;
  }
  __device__ Row load(std::size_t row, std::size_t group) const {
    return {load_row_pack<kVec>(x.at(row, 0), group * kVec, n), weight[row]};
  }
  __device__ void add(const Row& loaded, std::size_t, std::size_t, const Columns& columns,
                      double* sums) const {
    if (loaded.weight == 0.0f) return;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const double distance = static_cast<double>(widen(loaded.x.v[i])) - columns.mean[i];
      sums[i] += static_cast<double>(loaded.weight) * distance * distance;
    }
  }
  __device__ void store(std::size_t piece, std::size_t group, const double* sums) const {
    double* target = partial + piece * partial_stride;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      if (group * kVec + i < n) target[group * kVec + i] = sums[i];
    }
  }
};

template <class T, int kVec>
struct GradientSums {
  using Sum = double;
  static constexpr int kSums = 2 * kVec;
  struct Row {
    Pack<T, kVec> x, dy;
  };
  Rows<const T> x, dy;
  Means means;
  const float* var;
  double eps;
  std::size_t n;
  double* partial;
  std::size_t partial_stride;

  __device__ Normal<kVec> columns(std::size_t group) const {
    return normal<kVec>(means, var, eps, group * kVec, n);
  }
  __device__ Row load(std::size_t row, std::size_t group) const {
    return {load_row_pack<kVec>(x.at(row, 0), group * kVec, n),
            load_row_pack<kVec>(dy.at(row, 0), group * kVec, n)};
  }
  __device__ void add(const Row& loaded, std::size_t, std::size_t, const Normal<kVec>& columns,
                      double* sums) const {
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float gradient = widen(loaded.dy.v[i]);
      sums[i] += static_cast<double>(gradient);
      sums[kVec + i] += static_cast<double>(gradient * columns.hat(widen(loaded.x.v[i]), i));
    }
  }
  __device__ void store(std::size_t piece, std::size_t group, const double* sums) const {
    double* target = partial + piece * partial_stride;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const std::size_t column = group * kVec + i;
      if (column >= n) break;
      target[column] = sums[i];
      target[n + column] = sums[kVec + i];
    }
  }
};

// Floor: reads x, writes y.
template <class T, int kVec>
struct Forward {
  struct Columns {
    Normal<kVec> normal;
    float gamma[kVec], beta[kVec];
  };
  Rows<const T> x;
  Rows<T> y;
  Means means;
  const float *var, *gamma, *beta;
  double eps;
  std::size_t n;

  __device__ Columns columns(std::size_t group) const {
    Columns result{normal<kVec>(means, var, eps, group * kVec, n), {}, {}};
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      if (group * kVec + i >= n) break;
      result.gamma[i] = gamma[group * kVec + i];
      result.beta[i] = beta[group * kVec + i];
    }
    return result;
  }
  __device__ void operator()(std::size_t row, std::size_t group, const Columns& columns) const {
    Pack<float, kVec> values = load_row_widened<kVec>(x.at(row, 0), group * kVec, n);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      values.v[i] = columns.gamma[i] * columns.normal.hat(values.v[i], i) + columns.beta[i];
    }
    store_row_narrowed<kVec>(y.at(row, 0), group * kVec, n, values);
  }
};

// Floor: reads x and dy, writes dx.
template <class T, int kVec>
struct Backward {
  struct Columns {
    Normal<kVec> normal;
    float gain[kVec], mean_dy[kVec], mean_dy_hat[kVec];
  };
  Rows<const T> x, dy;
  Rows<T> dx;
  RowWeights weight;
  Means means;
  const float *var, *gamma;
  const double *sums, *dsums;
  std::size_t n;
  double eps;

  __device__ Columns columns(std::size_t group) const {
    Columns result{normal<kVec>(means, var, eps, group * kVec, n), {}, {}, {}};
    const double count = sums[n];
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const std::size_t column = group * kVec + i;
      if (column >= n) break;
      result.gain[i] = gamma[column] * result.normal.scale[i];
      result.mean_dy[i] = batch_mean(dsums[column], count);
      result.mean_dy_hat[i] = batch_mean(dsums[n + column], count);
    }
    return result;
  }
  __device__ void operator()(std::size_t row, std::size_t group, const Columns& c) const {
    const auto values = load_row_widened<kVec>(x.at(row, 0), group * kVec, n);
    auto gradient = load_row_widened<kVec>(dy.at(row, 0), group * kVec, n);
    const float w = weight[row];
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float hat = c.normal.hat(values.v[i], i);
      gradient.v[i] = c.gain[i] * (gradient.v[i] - w * (c.mean_dy[i] + hat * c.mean_dy_hat[i]));
    }
    store_row_narrowed<kVec>(dx.at(row, 0), group * kVec, n, gradient);
  }
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

void batch_norm_sums_kernel(const OpContext& ctx, const BatchNormSums& op) {
  const TensorRef x = last_axis_rows(op.x);
  const std::size_t n = x.row_size();
  const RowWeights weight(op.weight, x.rows());
  with_packs(
      [&]<class T, int kVec>(T, std::integral_constant<int, kVec>) {
        const std::size_t packs = packs_of(n, kVec);
        const WeightedSums<T, kVec> body{
            rows_of<const T>(x), weight, n, packs, op.partial.ptr<double>(), op.partial.row_stride};
        sum_tiles(ctx, BatchNormSums::kName, x.rows(), packs + 1, body);
      },
      x);
  finish_tiles<double>(ctx, BatchNormSums::kName, op.partial, Overwrite{op.sums.ptr<double>()});
}

void batch_norm_squares_kernel(const OpContext& ctx, const BatchNormSquares& op) {
  const TensorRef x = last_axis_rows(op.x);
  const std::size_t n = x.row_size();
  const RowWeights weight(op.weight, x.rows());
  with_packs(
      [&]<class T, int kVec>(T, std::integral_constant<int, kVec>) {
        const WeightedSquares<T, kVec> body{rows_of<const T>(x),      weight,
                                            op.sums.ptr<double>(),    n,
                                            op.partial.ptr<double>(), op.partial.row_stride};
        sum_tiles(ctx, BatchNormSquares::kName, x.rows(), packs_of(n, kVec), body);
      },
      x);
  finish_tiles<double>(ctx, BatchNormSquares::kName, op.partial,
                       Overwrite{op.squares.ptr<double>()});
}

void batch_norm_statistics_kernel(const OpContext& ctx, const BatchNormStatistics& op) {
  const std::size_t n = op.squares.size();
  const auto grid = static_cast<unsigned>((n + kStatisticsThreads - 1) / kStatisticsThreads);
  launch(ctx, "batch_norm_statistics", dim3(grid), dim3(kStatisticsThreads), 0, &statistics_kernel,
         op.arrays());
}

void batch_norm_fwd_kernel(const OpContext& ctx, const BatchNormFwd& op) {
  const TensorRef x = last_axis_rows(op.x), y = last_axis_rows(op.y);
  const std::size_t n = x.row_size();
  with_packs(
      [&]<class T, int kVec>(T, std::integral_constant<int, kVec>) {
        const Forward<T, kVec> body{rows_of<const T>(x),
                                    rows_of<T>(y),
                                    Means(op.mean, op.mean_low),
                                    op.var.ptr<float>(),
                                    op.gamma.ptr<float>(),
                                    op.beta.ptr<float>(),
                                    op.eps,
                                    n};
        for_each_row(ctx, BatchNormFwd::kName, x.rows(), packs_of(n, kVec), body);
      },
      x, y);
}

void batch_norm_bwd_sums_kernel(const OpContext& ctx, const BatchNormBwdSums& op) {
  const TensorRef x = last_axis_rows(op.x), dy = last_axis_rows(op.dy);
  const std::size_t n = x.row_size();
  with_packs(
      [&]<class T, int kVec>(T, std::integral_constant<int, kVec>) {
        const GradientSums<T, kVec> body{rows_of<const T>(x),
                                         rows_of<const T>(dy),
                                         Means(op.mean, op.mean_low),
                                         op.var.ptr<float>(),
                                         op.eps,
                                         n,
                                         op.partial.ptr<double>(),
                                         op.partial.row_stride};
        sum_tiles(ctx, BatchNormBwdSums::kName, x.rows(), packs_of(n, kVec), body);
      },
      x, dy);
  finish_tiles<double>(
      ctx, BatchNormBwdSums::kName, op.partial,
      OverwriteAndAdd{op.dsums.ptr<double>(), op.dbeta.ptr<float>(), op.dgamma.ptr<float>(), n});
}

void batch_norm_bwd_kernel(const OpContext& ctx, const BatchNormBwd& op) {
  const TensorRef x = last_axis_rows(op.x), dy = last_axis_rows(op.dy);
  const TensorRef dx = last_axis_rows(op.dx);
  const std::size_t n = x.row_size();
  const RowWeights weight(op.weight, x.rows());
  with_packs(
      [&]<class T, int kVec>(T, std::integral_constant<int, kVec>) {
        const Backward<T, kVec> body{rows_of<const T>(x),
                                     rows_of<const T>(dy),
                                     rows_of<T>(dx),
                                     weight,
                                     Means(op.mean, op.mean_low),
                                     op.var.ptr<float>(),
                                     op.gamma.ptr<float>(),
                                     op.sums.ptr<double>(),
                                     op.dsums.ptr<double>(),
                                     n,
                                     op.eps};
        for_each_row(ctx, BatchNormBwd::kName, x.rows(), packs_of(n, kVec), body);
      },
      x, dy, dx);
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
