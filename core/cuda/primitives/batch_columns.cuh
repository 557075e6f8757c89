// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>

#include "core/cpp/ops/batch_norm.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cuda/primitives/batch_loops.cuh"
#include "core/cuda/primitives/fast_divide.cuh"

/// What kernels with statistics of columns over the batch share: batch_norm and dice.
namespace hugectr::cuda {

/// The weight of row r, which is that of its sample.
class RowWeights {
 public:
  RowWeights(const TensorRef& weight, std::size_t rows)
      : data_(weight.ptr<float>()),
        rows_per_sample_(rows / std::max<std::size_t>(1, weight.size())) {}
  __device__ float operator[](std::size_t row) const {
    return data_[rows_per_sample_.quotient(row)];
  }

 private:
  const float* data_;
  FastDivide rows_per_sample_;
};

/// A sum over `count` rows as a mean; 0 where there is no row.
__device__ inline float batch_mean(double sum, double count) {
  return count > 0.0 ? static_cast<float>(sum / count) : 0.0f;
}

/// How columns are normalised. The first kValues of what a thread knows of a column are its own.
struct NormalColumns {
  static constexpr int kValues = 3;
  template <class Op>
  explicit NormalColumns(const Op& op)
      : mean(op.mean.template ptr<float>()),
        low(op.mean_low.template ptr<float>()),
        var(op.var.template ptr<float>()),
        eps(op.eps) {}
  __device__ void column(std::size_t j, float* values) const {
    values[0] = mean[j];
    values[1] = low[j];
    // As batch_norm_inv_deviation() but for the last bit of a few; all of a block wait for it.
    values[2] = static_cast<float>(rsqrt(static_cast<double>(var[j]) + eps));
  }
  const float *mean, *low, *var;
  double eps;
};

/// (x - mean) / deviation of column i of a thread's.
template <class Columns>
__device__ float hat(const Columns& columns, int i, float x) {
  return batch_norm_hat(x, {columns.of[0][i], columns.of[1][i]}, columns.of[2][i]);
}

/// Columns column .. column + V of a row of n, as they were loaded; and back, rounded once.
template <int V, class T>
__device__ RowWords<V, T> load_words(const Rows<const T>& from, std::size_t row, std::size_t column,
                                     std::size_t n) {
  return RowWords<V, T>::load_row(from.at(row, column), static_cast<unsigned>(column),
                                  static_cast<unsigned>(n));
}
template <int V, class T>
__device__ void store_words(const Rows<T>& to, std::size_t row, std::size_t column, std::size_t n,
                            const Pack<float, V>& wide) {
  RowWords<V, T>::narrowed(wide).store(to.at(row, column), static_cast<unsigned>(column),
                                       static_cast<unsigned>(n));
}

/// y = apply(x, h, the rule's kValues numbers of the column), which its column(j, values) gives.
/// Floor: reads x, writes y.
template <class T, int V, class Rule>
struct BatchForward {
  using Row = RowWords<V, T>;
  using Value = float;
  static constexpr int kAhead = 4, kValues = NormalColumns::kValues + Rule::kValues;
  Rows<const T> x;
  Rows<T> y;
  NormalColumns normal;
  Rule rule;
  std::size_t n;

  __device__ Row load(std::size_t row, std::size_t column) const {
    return load_words<V>(x, row, column, n);
  }
  __device__ void column(std::size_t j, float* values) const {
    normal.column(j, values);
    rule.column(j, values + NormalColumns::kValues);
  }
  template <class Columns>
  __device__ void store(std::size_t row, std::size_t column, const Row& loaded,
                        const Columns& columns) const {
    auto values = loaded.widened();
#pragma unroll
    for (int i = 0; i < V; ++i) {
      float of_rule[std::max(1, Rule::kValues)];
#pragma unroll
      for (int k = 0; k < Rule::kValues; ++k)
        of_rule[k] = columns.of[NormalColumns::kValues + k][i];
      values.v[i] = rule.apply(values.v[i], hat(columns, i, values.v[i]), of_rule);
    }
    store_words<V>(y, row, column, n, values);
  }
};

/// What goes through the statistics of a column is a function of its elements: for every row
///   g = through(dy, x, h);  with the sums of g and of g h over the batch,
///   dx = gradient(dy, h, g - weight (mean(g) + h mean(g h)), gain)
/// Rule has these two, and factor(j, 1 / deviation) -> gain. batch_norm's and dice's differ.
template <class T, int V, class Rule>
struct GradientSums {
  struct Row {
    RowWords<V, T> x, dy;
  };
  using Value = float;
  using Element = T;
  static constexpr int kAhead = 2, kValues = NormalColumns::kValues, kTensors = 2;
  static constexpr int kSums = 2, kOfRows = 0, kFew = sizeof(T) == 2 ? 16 : 4;
  Rows<const T> x, dy;
  NormalColumns normal;
  Rule rule;
  std::size_t n;

  __device__ Row load(std::size_t row, std::size_t column) const {
    return {load_words<V>(x, row, column, n), load_words<V>(dy, row, column, n)};
  }
  __device__ const Rows<const T>& from(int tensor) const { return tensor == 0 ? x : dy; }
  template <class Slot>
  __device__ static Row staged(const Slot& slot) {
    return {RowWords<V, T>::of(slot(0)), RowWords<V, T>::of(slot(1))};
  }
  __device__ void column(std::size_t j, float* values) const { normal.column(j, values); }
  template <class Columns>
  __device__ void add(const Row& row, const Columns& columns, float* sums) const {
    const auto values = row.x.widened(), gradients = row.dy.widened();
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float h = hat(columns, i, values.v[i]);
      const float g = rule.through(gradients.v[i], values.v[i], h);
      sums[i] += g;
      sums[V + i] = fmaf(g, h, sums[V + i]);
    }
  }
};

/// Floor: reads x and dy, writes dx.
template <class T, int V, class Rule>
struct BatchGradient {
  struct Row {
    RowWords<V, T> x, dy;
    float weight;
  };
  using Value = float;
  static constexpr int kAhead = 2, kValues = NormalColumns::kValues + 3;
  GradientSums<T, V, Rule> of;
  Rows<T> dx;
  RowWeights weight;
  const double *sums, *dsums;

  __device__ Row load(std::size_t row, std::size_t column) const {
    return {load_words<V>(of.x, row, column, of.n), load_words<V>(of.dy, row, column, of.n),
            weight[row]};
  }
  __device__ void column(std::size_t j, float* values) const {
    of.normal.column(j, values);
    values[3] = batch_mean(dsums[j], sums[of.n]);
    values[4] = batch_mean(dsums[of.n + j], sums[of.n]);
    values[5] = of.rule.factor(j, values[2]);
  }
  template <class Columns>
  __device__ void store(std::size_t row, std::size_t column, const Row& loaded,
                        const Columns& columns) const {
    const auto values = loaded.x.widened();
    auto result = loaded.dy.widened();
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float h = hat(columns, i, values.v[i]), dy = result.v[i];
      const float g = of.rule.through(dy, values.v[i], h);
      const float left = g - loaded.weight * (columns.of[3][i] + h * columns.of[4][i]);
      result.v[i] = of.rule.gradient(dy, h, left, columns.of[5][i]);
    }
    store_words<V>(dx, row, column, of.n, result);
  }
};

/// Run an op with statistics; rule_of(T{}) is its rule for elements of type T.
template <class Op, class MakeRule>
void run_batch_forward(const OpContext& ctx, const Op& op, const MakeRule& rule_of) {
  const TensorRef x = last_axis_rows(op.x), y = last_axis_rows(op.y);
  with_packs(
      [&]<class T, int V>(T type, std::integral_constant<int, V>) {
        const BatchForward<T, V, decltype(rule_of(type))> body{
            rows_of<const T>(x), rows_of<T>(y), NormalColumns(op), rule_of(type), x.row_size()};
        map_batch<V>(ctx, Op::kName, x.rows(), x.row_size(), body);
      },
      x, y);
}

template <class Op, class MakeRule, class Finish>
void run_gradient_sums(const OpContext& ctx, const Op& op, const MakeRule& rule_of,
                       const Finish& finish) {
  const TensorRef x = last_axis_rows(op.x), dy = last_axis_rows(op.dy);
  with_packs(
      [&]<class T, int V>(T type, std::integral_constant<int, V>) {
        const GradientSums<T, V, decltype(rule_of(type))> body{
            rows_of<const T>(x), rows_of<const T>(dy), NormalColumns(op), rule_of(type),
            x.row_size()};
        sum_batch<V>(ctx, Op::kName, x.rows(), x.row_size(), body, finish);
      },
      x, dy);
}

template <class Op, class MakeRule>
void run_batch_gradient(const OpContext& ctx, const Op& op, const MakeRule& rule_of) {
  const TensorRef x = last_axis_rows(op.x), dy = last_axis_rows(op.dy);
  const TensorRef dx = last_axis_rows(op.dx);
  with_packs(
      [&]<class T, int V>(T type, std::integral_constant<int, V>) {
        using Rule = decltype(rule_of(type));
        const BatchGradient<T, V, Rule> body{
            GradientSums<T, V, Rule>{rows_of<const T>(x), rows_of<const T>(dy), NormalColumns(op),
                                     rule_of(type), x.row_size()},
            rows_of<T>(dx), RowWeights(op.weight, x.rows()), op.sums.template ptr<double>(),
            op.dsums.template ptr<double>()};
        map_batch<V>(ctx, Op::kName, x.rows(), x.row_size(), body);
      },
      x, dy, dx);
}

/// For sum_batch(): target[column] = sum.
struct Overwrite {
  double* target;
  __device__ void operator()(std::size_t column, double sum) const { target[column] = sum; }
};

}  // namespace hugectr::cuda
