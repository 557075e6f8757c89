// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/dice.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cuda/primitives/batch_columns.cuh"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/row_tail.cuh"

namespace hugectr::cuda {
namespace {

// Floor: reads x, writes y.
template <class T, int kVec>
struct DiceForward {
  Rows<const T> x;
  Rows<T> y;
  Means means;
  const float* var;
  float alpha;
  double eps;
  std::size_t n;

  __device__ Normal<kVec> columns(std::size_t group) const {
    return normal<kVec>(means, var, eps, group * kVec, n);
  }
  __device__ void operator()(std::size_t row, std::size_t group, const Normal<kVec>& c) const {
    Pack<float, kVec> values = load_row_widened<kVec>(x.at(row, 0), group * kVec, n);
#pragma unroll
    for (int i = 0; i < kVec; ++i) values.v[i] = dice(values.v[i], c.hat(values.v[i], i), alpha);
    store_row_narrowed<kVec>(y.at(row, 0), group * kVec, n, values);
  }
};

// Floor: reads x and dy.
template <class T, int kVec>
struct DiceGradientSums {
  using Sum = double;
  static constexpr int kSums = 2 * kVec;
  struct Row {
    Pack<T, kVec> x, dy;
  };
  Rows<const T> x, dy;
  Means means;
  const float* var;
  float alpha;
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
      const float value = widen(loaded.x.v[i]), h = columns.hat(value, i);
      const float g = widen(loaded.dy.v[i]) * dice_gate_gradient(value, h, alpha);
      sums[i] += static_cast<double>(g);
      sums[kVec + i] += static_cast<double>(g * h);
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

// Floor: reads x and dy, writes dx.
template <class T, int kVec>
struct DiceBackward {
  struct Columns {
    Normal<kVec> normal;
    float mean_g[kVec], mean_g_hat[kVec];
  };
  Rows<const T> x, dy;
  Rows<T> dx;
  RowWeights weight;
  Means means;
  const float* var;
  const double *sums, *dsums;
  float alpha;
  double eps;
  std::size_t n;

  __device__ Columns columns(std::size_t group) const {
    Columns result{normal<kVec>(means, var, eps, group * kVec, n), {}, {}};
    const double count = sums[n];
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const std::size_t column = group * kVec + i;
      if (column >= n) break;
      result.mean_g[i] = batch_mean(dsums[column], count);
      result.mean_g_hat[i] = batch_mean(dsums[n + column], count);
    }
    return result;
  }
  __device__ void operator()(std::size_t row, std::size_t group, const Columns& c) const {
    const auto values = load_row_widened<kVec>(x.at(row, 0), group * kVec, n);
    auto gradient = load_row_widened<kVec>(dy.at(row, 0), group * kVec, n);
    const float w = weight[row];
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float h = c.normal.hat(values.v[i], i);
      const float g = gradient.v[i] * dice_gate_gradient(values.v[i], h, alpha);
      const float through = g - w * (c.mean_g[i] + h * c.mean_g_hat[i]);
      gradient.v[i] = gradient.v[i] * dice_slope(h, alpha) + c.normal.scale[i] * through;
    }
    store_row_narrowed<kVec>(dx.at(row, 0), group * kVec, n, gradient);
  }
};

void dice_fwd_kernel(const OpContext& ctx, const DiceFwd& op) {
  const TensorRef x = last_axis_rows(op.x), y = last_axis_rows(op.y);
  const std::size_t n = x.row_size();
  with_packs(
      [&]<class T, int kVec>(T, std::integral_constant<int, kVec>) {
        const DiceForward<T, kVec> body{rows_of<const T>(x),
                                        rows_of<T>(y),
                                        Means(op.mean, op.mean_low),
                                        op.var.ptr<float>(),
                                        static_cast<float>(op.alpha),
                                        op.eps,
                                        n};
        for_each_row(ctx, DiceFwd::kName, x.rows(), packs_of(n, kVec), body);
      },
      x, y);
}

void dice_bwd_sums_kernel(const OpContext& ctx, const DiceBwdSums& op) {
  const TensorRef x = last_axis_rows(op.x), dy = last_axis_rows(op.dy);
  const std::size_t n = x.row_size();
  with_packs(
      [&]<class T, int kVec>(T, std::integral_constant<int, kVec>) {
        const DiceGradientSums<T, kVec> body{rows_of<const T>(x),
                                             rows_of<const T>(dy),
                                             Means(op.mean, op.mean_low),
                                             op.var.ptr<float>(),
                                             static_cast<float>(op.alpha),
                                             op.eps,
                                             n,
                                             op.partial.ptr<double>(),
                                             op.partial.row_stride};
        sum_tiles(ctx, DiceBwdSums::kName, x.rows(), packs_of(n, kVec), body);
      },
      x, dy);
  finish_tiles<double>(ctx, DiceBwdSums::kName, op.partial, Overwrite{op.dsums.ptr<double>()});
}

void dice_bwd_kernel(const OpContext& ctx, const DiceBwd& op) {
  const TensorRef x = last_axis_rows(op.x), dy = last_axis_rows(op.dy);
  const TensorRef dx = last_axis_rows(op.dx);
  const std::size_t n = x.row_size();
  with_packs(
      [&]<class T, int kVec>(T, std::integral_constant<int, kVec>) {
        const DiceBackward<T, kVec> body{rows_of<const T>(x),
                                         rows_of<const T>(dy),
                                         rows_of<T>(dx),
                                         RowWeights(op.weight, x.rows()),
                                         Means(op.mean, op.mean_low),
                                         op.var.ptr<float>(),
                                         op.sums.ptr<double>(),
                                         op.dsums.ptr<double>(),
                                         static_cast<float>(op.alpha),
                                         op.eps,
                                         n};
        for_each_row(ctx, DiceBwd::kName, x.rows(), packs_of(n, kVec), body);
      },
      x, dy, dx);
}

const OpRegistration<DiceFwd> dice_fwd_cuda{DeviceType::Cuda, &dice_fwd_kernel};
const OpRegistration<DiceBwdSums> dice_bwd_sums_cuda{DeviceType::Cuda, &dice_bwd_sums_kernel};
const OpRegistration<DiceBwd> dice_bwd_cuda{DeviceType::Cuda, &dice_bwd_kernel};

}  // namespace
}  // namespace hugectr::cuda
