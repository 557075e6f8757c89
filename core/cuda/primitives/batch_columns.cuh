// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>

#include "core/cpp/ops/batch_norm.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cuda/primitives/batch_loops.cuh"
#include "core/cuda/primitives/column_sums.cuh"
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

/// How columns are normalised. The first kValues of what a thread knows of a column are its own:
/// h = (x - [0]) [2] + [1], which is batch_norm_hat() in two instructions.
struct NormalColumns {
  static constexpr int kValues = 3;
  template <class Op>
  explicit NormalColumns(const Op& op)
      : mean(op.mean.template ptr<float>()),
        low(op.mean_low.template ptr<float>()),
        var(op.var.template ptr<float>()),
        eps(op.eps) {}
  __device__ void column(std::size_t j, float* values) const {
    const auto inv_deviation = static_cast<float>(rsqrt(static_cast<double>(var[j]) + eps));
    values[0] = mean[j];
    values[1] = -low[j] * inv_deviation;
    values[2] = inv_deviation;
  }
  const float *mean, *low, *var;
  double eps;
};

/// (x - mean) / deviation of the columns of a thread.
template <int V, class Columns>
__device__ Pack<float, V> hats(const Columns& columns, const Pack<float, V>& x) {
  Pack<float, V> h;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    h.v[i] = fmaf(x.v[i] - columns.of[0][i], columns.of[2][i], columns.of[1][i]);
  }
  return h;
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

/// y = apply(x, bend, the rule's kValues numbers of the column), which its column(j, values) gives.
/// bends(h) is what a rule makes of the V h of a thread at once.
/// Floor: reads x, writes y.
template <class T, int V, class Rule>
struct BatchForward {
  using Row = RowWords<V, T>;
  using Value = float;
  static constexpr int kAhead = 4, kValues = NormalColumns::kValues + Rule::kValues;
  static constexpr int kBlocks = Rule::kValues == 0 ? 3 : 2;
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
    const auto bends = rule.bends(hats(columns, values));
#pragma unroll
    for (int i = 0; i < V; ++i) {
      float of_rule[std::max(1, Rule::kValues)];
#pragma unroll
      for (int k = 0; k < Rule::kValues; ++k)
        of_rule[k] = columns.of[NormalColumns::kValues + k][i];
      values.v[i] = rule.apply(values.v[i], bends.v[i], of_rule);
    }
    store_words<V>(y, row, column, n, values);
  }
};

/// What goes through the statistics of a column is a function of its elements: for every row
///   g = factor() through(dy, x, bend);  with the sums of g and of g h over the batch,
///   dx = beside(dy, bend) + gain (g - weight (mean(g) + h mean(g h)))
/// Rule has these three, and gain(j, 1 / deviation). batch_norm's and dice's differ. Sums lack the
/// factor until they are done.
template <class T, int V, class Rule>
struct GradientSums {
  struct Row {
    RowWords<V, T> x, dy;
  };
  using Value = float;
  using Element = T;
  using Piece = float;  // rounded as often as every term of it was
  static constexpr int kAhead = 4, kValues = NormalColumns::kValues, kTensors = 2;
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
    const auto h = hats(columns, values), bends = rule.bends(h);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float g = rule.through(gradients.v[i], values.v[i], bends.v[i]);
      sums[i] += g;
      sums[V + i] = fmaf(g, h.v[i], sums[V + i]);
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
  static constexpr bool kOwnGain = !requires { Rule::kGainIsInverseDeviation; };
  static constexpr int kAhead = kOwnGain ? 2 : 3, kBlocks = 2;
  static constexpr int kMeans = NormalColumns::kValues, kGain = kOwnGain ? kMeans + 2 : 2;
  static constexpr int kValues = kMeans + (kOwnGain ? 3 : 2);
  GradientSums<T, V, Rule> of;
  Rows<T> dx;
  RowWeights weight;
  const double *sums, *dsums;

  __device__ Row load(std::size_t row, std::size_t column) const {
    return {load_words<V>(of.x, row, column, of.n), load_words<V>(of.dy, row, column, of.n),
            weight[row]};
  }
  // Means are 0 where there is no row.
  __device__ void column(std::size_t j, float* values) const {
    const double count = sums[of.n], of_g = dsums[j], of_g_h = dsums[of.n + j];
    const double share = 1.0 / count;
    of.normal.column(j, values);
    const float gain = of.rule.gain(j, values[2]);
    values[kMeans] = count > 0.0 ? gain * static_cast<float>(of_g * share) : 0.0f;
    values[kMeans + 1] = count > 0.0 ? gain * static_cast<float>(of_g_h * share) : 0.0f;
    values[kGain] = gain;
  }
  template <class Columns>
  __device__ void store(std::size_t row, std::size_t column, const Row& loaded,
                        const Columns& columns) const {
    const auto values = loaded.x.widened();
    auto result = loaded.dy.widened();
    const auto h = hats(columns, values), bends = of.rule.bends(h);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float dy = result.v[i], bend = bends.v[i];
      const float g = of.rule.factor() * of.rule.through(dy, values.v[i], bend);
      const float own = fmaf(columns.of[kGain][i], g, of.rule.beside(dy, bend));
      const float means = fmaf(h.v[i], columns.of[kMeans + 1][i], columns.of[kMeans][i]);
      result.v[i] = fmaf(-loaded.weight, means, own);
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

/// A finish of sums that lack a factor.
template <class Finish>
struct Scaled {
  Finish finish;
  float factor;
  __device__ void operator()(std::size_t column, double sum) const {
    finish(column, static_cast<double>(factor) * sum);
  }
};

template <class Op, class MakeRule, class Finish>
void run_gradient_sums(const OpContext& ctx, const Op& op, const MakeRule& rule_of,
                       const Finish& finish) {
  const TensorRef x = last_axis_rows(op.x), dy = last_axis_rows(op.dy);
  with_packs(
      [&]<class T, int V>(T type, std::integral_constant<int, V>) {
        const GradientSums<T, V, decltype(rule_of(type))> body{
            rows_of<const T>(x), rows_of<const T>(dy), NormalColumns(op), rule_of(type),
            x.row_size()};
        sum_columns<V>(ctx, Op::kName, x.rows(), x.row_size(), body,
                       Scaled<Finish>{finish, body.rule.factor()});
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

/// For sum_columns(): target[column] = sum.
struct Overwrite {
  double* target;
  __device__ void operator()(std::size_t column, double sum) const { target[column] = sum; }
};

}  // namespace hugectr::cuda
