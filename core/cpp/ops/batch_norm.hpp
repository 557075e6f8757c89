// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

/// Batch normalisation over the GLOBAL batch, cut where sums must cross devices. Training runs
///   batch_norm_sums, all_reduce(sums), batch_norm_squares, all_reduce(squares),
///   batch_norm_statistics, batch_norm_fwd;
///   batch_norm_bwd_sums, all_reduce(dsums), batch_norm_bwd.
/// Evaluation runs batch_norm_fwd with the running statistics. Deviations are squared in a second
/// pass, in double, so that a large mean costs no digits; for the same reason a mean is two
/// numbers, mean + mean_low (SplitMean), 48 bits in all.
///
/// In all of them: x, y, dy, dx are (batch, n) with strided rows, or (b, .., n) contiguous, which
/// counts as rows of n; all float32, float16 or bfloat16; the rest is float32 or wider whatever
/// they are. weight is (samples), each of as many neighbouring rows, 0 for padding samples, which
/// take no part in statistics and get no gradient from them; mean, mean_low, var, gamma, beta are
/// (n). `partial` is used by the CPU; a GPU takes scratch for as many blocks as it runs at once.
/// Deterministic.
namespace hugectr {

/// A mean rounded to float32, and the rest. x - high is exact where x is near the mean.
struct SplitMean {
  float high, low;
};

/// Splitting high + low again gives the same two numbers: files hold the sum. Neither is finite
/// when the mean is not. Without branches: GCC 12 turns one with an early return into wrong numbers
/// in loops that it vectorises (-O2 -fno-trapping-math).
HCTR_HD inline SplitMean split_mean(double mean) {
  const auto rounded = static_cast<float>(mean);
  const auto rest = static_cast<float>(mean - static_cast<double>(rounded));
  // The rest may have been rounded up to half of the last place, and the sum be nearer to another.
  const float high = rounded + rest;
  const double low =
      (static_cast<double>(rounded) - static_cast<double>(high)) + static_cast<double>(rest);
  return {high, static_cast<float>(low)};
}

/// (x - mean) / sqrt(var + eps)
HCTR_HD inline float batch_norm_hat(float x, SplitMean mean, float inv_deviation) {
  return ((x - mean.high) - mean.low) * inv_deviation;
}

HCTR_HD inline float batch_norm_inv_deviation(float var, double eps) {
  return static_cast<float>(1.0 / sqrt(static_cast<double>(var) + eps));
}

/// What batch_norm_statistics reads and writes; the running ones may be null, all three.
struct BatchNormArrays {
  const double *sums, *squares;
  float *mean, *mean_low, *var, *running_mean, *running_mean_low, *running_var;
  double factor;
  std::size_t n;
};

/// The running mean moves towards `value` where that is finite.
HCTR_HD inline void batch_norm_update_mean(const BatchNormArrays& a, std::size_t j, double value) {
  if (a.mean[j] - a.mean[j] != 0.0f) return;
  const double old =
      static_cast<double>(a.running_mean[j]) + static_cast<double>(a.running_mean_low[j]);
  const SplitMean next = split_mean(old * (1.0 - a.factor) + value * a.factor);
  a.running_mean[j] = next.high;
  a.running_mean_low[j] = next.low;
}

/// The same for the variance, whose digits float32 holds.
HCTR_HD inline void batch_norm_update_var(const BatchNormArrays& a, std::size_t j, double value) {
  if (a.var[j] - a.var[j] != 0.0f) return;
  const auto old = static_cast<double>(a.running_var[j]);
  a.running_var[j] = static_cast<float>(old * (1.0 - a.factor) + value * a.factor);
}

/// Column j of batch_norm_statistics.
HCTR_HD inline void batch_norm_statistics_of(const BatchNormArrays& a, std::size_t j) {
  const double count = a.sums[a.n];
  const bool runs = a.running_mean != nullptr;
  if (count <= 0.0) {  // a batch of padding only has no statistics; keep what was learned
    a.mean[j] = runs ? a.running_mean[j] : 0.0f;
    a.mean_low[j] = runs ? a.running_mean_low[j] : 0.0f;
    a.var[j] = runs ? a.running_var[j] : 1.0f;
    return;
  }
  const double mean = a.sums[j] / count, var = a.squares[j] / count;
  const SplitMean batch = split_mean(mean);
  a.mean[j] = batch.high;
  a.mean_low[j] = batch.low;
  a.var[j] = static_cast<float>(var);
  if (!runs) return;
  batch_norm_update_mean(a, j, mean);
  batch_norm_update_var(a, j, var);
}

/// sums[j] = sum_i weight_i x_ij for j < n;  sums[n] = sum_i weight_i.
/// sums: (n + 1) float64, overwritten. partial: (partial_rows(batch), n + 1) float64 scratch.
struct HCTR_API BatchNormSums {
  static constexpr const char* kName = "batch_norm_sums";
  static constexpr std::string_view k16BitFields = "x";
  TensorRef x, weight, sums, partial;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("weight", Access::In, weight);
    v.tensor("sums", Access::Out, sums);
    v.tensor("partial", Access::Out, partial);
  }
  void check() const;
};

/// squares[j] = sum_i weight_i (x_ij - sums[j] / sums[n])^2.
/// squares: (n) float64, overwritten. partial: (partial_rows(batch), n) float64 scratch.
struct HCTR_API BatchNormSquares {
  static constexpr const char* kName = "batch_norm_squares";
  static constexpr std::string_view k16BitFields = "x";
  TensorRef x, weight, sums, squares, partial;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("weight", Access::In, weight);
    v.tensor("sums", Access::In, sums);
    v.tensor("squares", Access::Out, squares);
    v.tensor("partial", Access::Out, partial);
  }
  void check() const;
};

/// mean = sums / count;  var = squares / count (population);
/// running = running (1 - factor) + batch factor, for mean and var.
/// mean, mean_low, var are overwritten, the running ones updated, all (n) float32. A statistic that
/// is not finite (a batch that overflowed 16 bits, whose step is skipped) leaves the running one.
/// The running ones may be absent, all three; a batch of padding only then has mean 0, variance 1.
struct HCTR_API BatchNormStatistics {
  static constexpr const char* kName = "batch_norm_statistics";
  TensorRef sums, squares, mean, mean_low, var, running_mean, running_mean_low, running_var;
  double factor = 1.0;
  void visit(OpVisitor& v) {
    v.tensor("sums", Access::In, sums);
    v.tensor("squares", Access::In, squares);
    v.tensor("mean", Access::Out, mean);
    v.tensor("mean_low", Access::Out, mean_low);
    v.tensor("var", Access::Out, var);
    v.optional("running_mean", Access::InOut, running_mean);
    v.optional("running_mean_low", Access::InOut, running_mean_low);
    v.optional("running_var", Access::InOut, running_var);
    v.attribute("factor", factor);
  }
  void check() const;

  BatchNormArrays arrays() const {
    const bool runs = !running_mean.empty();
    return {sums.ptr<double>(),
            squares.ptr<double>(),
            mean.ptr<float>(),
            mean_low.ptr<float>(),
            var.ptr<float>(),
            runs ? running_mean.ptr<float>() : nullptr,
            runs ? running_mean_low.ptr<float>() : nullptr,
            runs ? running_var.ptr<float>() : nullptr,
            factor,
            squares.size()};
  }
};

/// y = gamma (x - mean) / sqrt(var + eps) + beta. Overwrites y, which may be x.
struct HCTR_API BatchNormFwd {
  static constexpr const char* kName = "batch_norm_fwd";
  static constexpr std::string_view k16BitFields = "x y";
  TensorRef x, mean, mean_low, var, gamma, beta, y;
  double eps = 1e-5;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("mean", Access::In, mean);
    v.tensor("mean_low", Access::In, mean_low);
    v.tensor("var", Access::In, var);
    v.tensor("gamma", Access::In, gamma);
    v.tensor("beta", Access::In, beta);
    v.tensor("y", Access::Out, y);
    v.attribute("eps", eps);
  }
  void check() const;
};

/// dsums[j] = sum_i dy_ij;  dsums[n + j] = sum_i dy_ij xhat_ij;  dbeta += the first, dgamma += the
/// second (this device's share, before any all_reduce).
/// dsums: (2 n) float64, overwritten. partial: (partial_rows(batch), 2 n) float64 scratch.
struct HCTR_API BatchNormBwdSums {
  static constexpr const char* kName = "batch_norm_bwd_sums";
  static constexpr std::string_view k16BitFields = "x dy";
  TensorRef x, mean, mean_low, var, dy, dsums, dgamma, dbeta, partial;
  double eps = 1e-5;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("mean", Access::In, mean);
    v.tensor("mean_low", Access::In, mean_low);
    v.tensor("var", Access::In, var);
    v.tensor("dy", Access::In, dy);
    v.tensor("dsums", Access::Out, dsums);
    v.tensor("dgamma", Access::InOut, dgamma);
    v.tensor("dbeta", Access::InOut, dbeta);
    v.tensor("partial", Access::Out, partial);
    v.attribute("eps", eps);
  }
  void check() const;
};

/// dx_ij = gamma_j / sqrt(var_j + eps) (dy_ij - weight_i (dsums[j] + xhat_ij dsums[n + j]) / count)
/// with count = sums[n]. Overwrites dx, which may be dy.
struct HCTR_API BatchNormBwd {
  static constexpr const char* kName = "batch_norm_bwd";
  static constexpr std::string_view k16BitFields = "x dy dx";
  TensorRef x, weight, mean, mean_low, var, gamma, dy, sums, dsums, dx;
  double eps = 1e-5;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("weight", Access::In, weight);
    v.tensor("mean", Access::In, mean);
    v.tensor("mean_low", Access::In, mean_low);
    v.tensor("var", Access::In, var);
    v.tensor("gamma", Access::In, gamma);
    v.tensor("dy", Access::In, dy);
    v.tensor("sums", Access::In, sums);
    v.tensor("dsums", Access::In, dsums);
    v.tensor("dx", Access::Out, dx);
    v.attribute("eps", eps);
  }
  void check() const;
};

}  // namespace hugectr
