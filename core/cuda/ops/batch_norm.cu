// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/batch_norm.hpp"
#include "core/cuda/primitives/column_tiles.cuh"

namespace hugectr::cuda {
namespace {

struct NoColumns {};

// Weighted sums; the last group is one column of ones, so that it sums the weights.
template <int kVec>
struct WeightedSums {
  using Sum = double;
  static constexpr int kSums = kVec;
  struct Row {
    Pack<float, kVec> x;
    float weight;
  };
  Rows<const float> x;
  const float* weight;
  std::size_t n;
  double* partial;
  std::size_t partial_stride;

  __device__ NoColumns columns(std::size_t) const { return {}; }
  __device__ Row load(std::size_t row, std::size_t group) const {
    Row loaded{{}, weight[row]};
    if (group < n / kVec) {
      loaded.x = load_pack<kVec>(x.at(row, group * kVec));
    } else {
      loaded.x.v[0] = 1.0f;
    }
    return loaded;
  }
  __device__ void add(const Row& loaded, std::size_t, std::size_t, NoColumns, double* sums) const {
    if (loaded.weight == 0.0f) return;  // what padding holds does not matter, NaN included
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      sums[i] += static_cast<double>(loaded.weight) * static_cast<double>(loaded.x.v[i]);
    }
  }
  __device__ void store(std::size_t piece, std::size_t group, const double* sums) const {
    const std::size_t column = group * kVec;
    double* target = partial + piece * partial_stride + column;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      if (column + i <= n) target[i] = sums[i];
    }
  }
};

template <int kVec>
struct WeightedSquares {
  using Sum = double;
  static constexpr int kSums = kVec;
  struct Row {
    Pack<float, kVec> x;
    float weight;
  };
  struct Columns {
    double mean[kVec];
  };
  Rows<const float> x;
  const float* weight;
  const double* totals;
  std::size_t n;
  double* partial;
  std::size_t partial_stride;

  __device__ Columns columns(std::size_t group) const {
    Columns result;
    const double count = totals[n];
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      result.mean[i] = count > 0.0 ? totals[group * kVec + i] / count : 0.0;
    }
    return result;
  }
  __device__ Row load(std::size_t row, std::size_t group) const {
    return {load_pack<kVec>(x.at(row, group * kVec)), weight[row]};
  }
  __device__ void add(const Row& loaded, std::size_t, std::size_t, const Columns& columns,
                      double* sums) const {
    if (loaded.weight == 0.0f) return;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const double distance = static_cast<double>(loaded.x.v[i]) - columns.mean[i];
      sums[i] += static_cast<double>(loaded.weight) * distance * distance;
    }
  }
  __device__ void store(std::size_t piece, std::size_t group, const double* sums) const {
    double* target = partial + piece * partial_stride + group * kVec;
#pragma unroll
    for (int i = 0; i < kVec; ++i) target[i] = sums[i];
  }
};

// What a thread keeps of the columns it normalises.
template <int kVec>
struct Normal {
  float mean[kVec], scale[kVec];
  __device__ float hat(const Pack<float, kVec>& x, int i) const {
    return batch_norm_hat(x.v[i], mean[i], scale[i]);
  }
};

template <int kVec>
__device__ Normal<kVec> normal(const float* mean, const float* var, double eps,
                               std::size_t column) {
  Normal<kVec> result;
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    result.mean[i] = mean[column + i];
    result.scale[i] = batch_norm_inv_deviation(var[column + i], eps);
  }
  return result;
}

template <int kVec>
struct GradientSums {
  using Sum = double;
  static constexpr int kSums = 2 * kVec;
  struct Row {
    Pack<float, kVec> x, dy;
  };
  Rows<const float> x, dy;
  const float *mean, *var;
  double eps;
  std::size_t n;
  double* partial;
  std::size_t partial_stride;

  __device__ Normal<kVec> columns(std::size_t group) const {
    return normal<kVec>(mean, var, eps, group * kVec);
  }
  __device__ Row load(std::size_t row, std::size_t group) const {
    return {load_pack<kVec>(x.at(row, group * kVec)), load_pack<kVec>(dy.at(row, group * kVec))};
  }
  __device__ void add(const Row& loaded, std::size_t, std::size_t, const Normal<kVec>& columns,
                      double* sums) const {
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      sums[i] += static_cast<double>(loaded.dy.v[i]);
      sums[kVec + i] += static_cast<double>(loaded.dy.v[i] * columns.hat(loaded.x, i));
    }
  }
  __device__ void store(std::size_t piece, std::size_t group, const double* sums) const {
    double* target = partial + piece * partial_stride + group * kVec;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      target[i] = sums[i];
      target[n + i] = sums[kVec + i];
    }
  }
};

// Floor: reads x, writes y: 8 bytes an element.
template <int kVec>
struct Forward {
  struct Columns {
    Normal<kVec> normal;
    float gamma[kVec], beta[kVec];
  };
  Rows<const float> x;
  Rows<float> y;
  const float *mean, *var, *gamma, *beta;
  double eps;

  __device__ Columns columns(std::size_t group) const {
    Columns result;
    result.normal = normal<kVec>(mean, var, eps, group * kVec);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      result.gamma[i] = gamma[group * kVec + i];
      result.beta[i] = beta[group * kVec + i];
    }
    return result;
  }
  __device__ void operator()(std::size_t row, std::size_t group, const Columns& columns) const {
    Pack<float, kVec> values = load_pack<kVec>(x.at(row, group * kVec));
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      values.v[i] = columns.gamma[i] * columns.normal.hat(values, i) + columns.beta[i];
    }
    store_pack<kVec>(y.at(row, group * kVec), values);
  }
};

// Floor: reads x and dy, writes dx: 12 bytes an element.
template <int kVec>
struct Backward {
  struct Columns {
    Normal<kVec> normal;
    float gamma[kVec], mean_dy[kVec], mean_dy_hat[kVec];
  };
  Rows<const float> x, dy;
  Rows<float> dx;
  const float *weight, *mean, *var, *gamma;
  const double *sums, *dsums;
  std::size_t n;
  double eps;

  __device__ float mean_of(double sum, double count) const {
    return count > 0.0 ? static_cast<float>(sum / count) : 0.0f;
  }
  __device__ Columns columns(std::size_t group) const {
    Columns result;
    result.normal = normal<kVec>(mean, var, eps, group * kVec);
    const double count = sums[n];
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const std::size_t column = group * kVec + i;
      result.gamma[i] = gamma[column];
      result.mean_dy[i] = mean_of(dsums[column], count);
      result.mean_dy_hat[i] = mean_of(dsums[n + column], count);
    }
    return result;
  }
  __device__ void operator()(std::size_t row, std::size_t group, const Columns& c) const {
    const Pack<float, kVec> values = load_pack<kVec>(x.at(row, group * kVec));
    Pack<float, kVec> gradient = load_pack<kVec>(dy.at(row, group * kVec));
    const float w = weight[row];
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float hat = c.normal.hat(values, i);
      gradient.v[i] = c.gamma[i] * c.normal.scale[i] *
                      (gradient.v[i] - w * (c.mean_dy[i] + hat * c.mean_dy_hat[i]));
    }
    store_pack<kVec>(dx.at(row, group * kVec), gradient);
  }
};

struct Overwrite {
  double* target;
  __device__ void operator()(std::size_t column, double sum) const { target[column] = sum; }
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

struct Statistics {
  const double *sums, *squares;
  float *mean, *var, *running_mean, *running_var;
  double factor;
  std::size_t n;
};

__device__ void update_statistic(double value, double factor, float& batch, float& running) {
  batch = static_cast<float>(value);
  if (!isfinite(batch)) return;
  running = static_cast<float>(static_cast<double>(running) * (1.0 - factor) + value * factor);
}

constexpr unsigned kStatisticsThreads = 128;

__global__ void __launch_bounds__(kStatisticsThreads) statistics_kernel(Statistics op) {
  const std::size_t j = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (j >= op.n) return;
  const double count = op.sums[op.n];
  if (count <= 0.0) {  // a batch of padding only has no statistics; keep what was learned
    op.mean[j] = op.running_mean[j];
    op.var[j] = op.running_var[j];
    return;
  }
  update_statistic(op.sums[j] / count, op.factor, op.mean[j], op.running_mean[j]);
  update_statistic(op.squares[j] / count, op.factor, op.var[j], op.running_var[j]);
}

template <int kVec>
void run_sums(const OpContext& ctx, const BatchNormSums& op) {
  const std::size_t n = op.x.row_size();
  const WeightedSums<kVec> body{rows_of<const float>(op.x), op.weight.ptr<float>(), n,
                                op.partial.ptr<double>(), op.partial.row_stride};
  sum_tiles(ctx, "batch_norm_sums", op.x.rows(), n / kVec + 1, body);
  finish_tiles<double>(ctx, "batch_norm_sums finish", op.partial, Overwrite{op.sums.ptr<double>()});
}

template <int kVec>
void run_squares(const OpContext& ctx, const BatchNormSquares& op) {
  const std::size_t n = op.x.row_size();
  const WeightedSquares<kVec> body{rows_of<const float>(op.x), op.weight.ptr<float>(),
                                   op.sums.ptr<double>(),      n,
                                   op.partial.ptr<double>(),   op.partial.row_stride};
  sum_tiles(ctx, "batch_norm_squares", op.x.rows(), n / kVec, body);
  finish_tiles<double>(ctx, "batch_norm_squares finish", op.partial,
                       Overwrite{op.squares.ptr<double>()});
}

template <int kVec>
void run_fwd(const OpContext& ctx, const BatchNormFwd& op) {
  const Forward<kVec> body{rows_of<const float>(op.x),
                           rows_of<float>(op.y),
                           op.mean.ptr<float>(),
                           op.var.ptr<float>(),
                           op.gamma.ptr<float>(),
                           op.beta.ptr<float>(),
                           op.eps};
  for_each_row(ctx, "batch_norm_fwd", op.x.rows(), op.x.row_size() / kVec, body);
}

template <int kVec>
void run_bwd_sums(const OpContext& ctx, const BatchNormBwdSums& op) {
  const std::size_t n = op.x.row_size();
  const GradientSums<kVec> body{rows_of<const float>(op.x),
                                rows_of<const float>(op.dy),
                                op.mean.ptr<float>(),
                                op.var.ptr<float>(),
                                op.eps,
                                n,
                                op.partial.ptr<double>(),
                                op.partial.row_stride};
  sum_tiles(ctx, "batch_norm_bwd_sums", op.x.rows(), n / kVec, body);
  finish_tiles<double>(
      ctx, "batch_norm_bwd_sums finish", op.partial,
      OverwriteAndAdd{op.dsums.ptr<double>(), op.dbeta.ptr<float>(), op.dgamma.ptr<float>(), n});
}

template <int kVec>
void run_bwd(const OpContext& ctx, const BatchNormBwd& op) {
  const std::size_t n = op.x.row_size();
  const Backward<kVec> body{rows_of<const float>(op.x),
                            rows_of<const float>(op.dy),
                            rows_of<float>(op.dx),
                            op.weight.ptr<float>(),
                            op.mean.ptr<float>(),
                            op.var.ptr<float>(),
                            op.gamma.ptr<float>(),
                            op.sums.ptr<double>(),
                            op.dsums.ptr<double>(),
                            n,
                            op.eps};
  for_each_row(ctx, "batch_norm_bwd", op.x.rows(), n / kVec, body);
}

void batch_norm_sums_kernel(const OpContext& ctx, const BatchNormSums& op) {
  rows_allow_16_bytes(op.x) ? run_sums<4>(ctx, op) : run_sums<1>(ctx, op);
}

void batch_norm_squares_kernel(const OpContext& ctx, const BatchNormSquares& op) {
  rows_allow_16_bytes(op.x) ? run_squares<4>(ctx, op) : run_squares<1>(ctx, op);
}

void batch_norm_statistics_kernel(const OpContext& ctx, const BatchNormStatistics& op) {
  const std::size_t n = op.squares.size();
  const auto grid = static_cast<unsigned>((n + kStatisticsThreads - 1) / kStatisticsThreads);
  launch(ctx, "batch_norm_statistics", dim3(grid), dim3(kStatisticsThreads), 0, &statistics_kernel,
         Statistics{op.sums.ptr<double>(), op.squares.ptr<double>(), op.mean.ptr<float>(),
                    op.var.ptr<float>(), op.running_mean.ptr<float>(), op.running_var.ptr<float>(),
                    op.factor, n});
}

void batch_norm_fwd_kernel(const OpContext& ctx, const BatchNormFwd& op) {
  rows_allow_16_bytes(op.x, op.y) ? run_fwd<4>(ctx, op) : run_fwd<1>(ctx, op);
}

void batch_norm_bwd_sums_kernel(const OpContext& ctx, const BatchNormBwdSums& op) {
  rows_allow_16_bytes(op.x, op.dy) ? run_bwd_sums<4>(ctx, op) : run_bwd_sums<1>(ctx, op);
}

void batch_norm_bwd_kernel(const OpContext& ctx, const BatchNormBwd& op) {
  rows_allow_16_bytes(op.x, op.dy, op.dx) ? run_bwd<4>(ctx, op) : run_bwd<1>(ctx, op);
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
