// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>

#include "core/cpp/ops/batch_norm.hpp"
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

/// What a thread keeps of the columns it normalises; zeros behind the last one.
template <int kVec>
struct Normal {
  SplitMean mean[kVec];
  float scale[kVec];
  __device__ float hat(float x, int i) const { return batch_norm_hat(x, mean[i], scale[i]); }
};

/// The two parts of the columns' means.
struct Means {
  explicit Means(const TensorRef& mean, const TensorRef& mean_low)
      : high(mean.ptr<float>()), low(mean_low.ptr<float>()) {}
  const float *high, *low;
};

template <int kVec>
__device__ Normal<kVec> normal(const Means& means, const float* var, double eps, std::size_t column,
                               std::size_t n) {
  Normal<kVec> result{};
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    if (column + i >= n) break;
    result.mean[i] = {means.high[column + i], means.low[column + i]};
    result.scale[i] = batch_norm_inv_deviation(var[column + i], eps);
  }
  return result;
}

/// For finish_tiles(): target[column] = sum.
struct Overwrite {
  double* target;
  __device__ void operator()(std::size_t column, double sum) const { target[column] = sum; }
};

}  // namespace hugectr::cuda
