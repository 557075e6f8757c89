// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/batch_norm.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

/// What ops with statistics over the batch share: batch_norm and dice.
namespace hugectr {

/// row(r, sums): adds row r to `count` sums; result: the sums over all rows.
template <class Row>
void sum_over_batch(ThreadPool& pool, std::size_t batch, const TensorRef& partial, double* result,
                    const Row& row) {
  const std::size_t piece = samples_per_partial(batch);
  const std::size_t count = partial.row_size();
  parallel_for(pool, batch, piece, [&](std::size_t begin, std::size_t end) {
    double* sums = partial.row<double>(begin / piece);
    std::fill_n(sums, count, 0.0);
    for (std::size_t r = begin; r < end; ++r) row(r, sums);
  });
  std::fill_n(result, count, 0.0);
  for (std::size_t p = 0; p < partial.rows(); ++p) {
    const double* __restrict sums = partial.row<double>(p);
    for (std::size_t j = 0; j < count; ++j) result[j] += sums[j];
  }
}

/// Columns' 1 / sqrt(var + eps).
inline std::vector<float> batch_norm_inv_deviations(const TensorRef& var, double eps) {
  std::vector<float> result(var.size());
  for (std::size_t j = 0; j < result.size(); ++j) {
    result[j] = batch_norm_inv_deviation(var.ptr<float>()[j], eps);
  }
  return result;
}

/// `n` sums over `count` rows as means; 0 where there is no row.
inline std::vector<float> batch_means(const double* sums, std::size_t n, double count) {
  std::vector<float> means(n, 0.0f);
  for (std::size_t j = 0; j < n && count > 0.0; ++j) means[j] = static_cast<float>(sums[j] / count);
  return means;
}

/// Throws InvalidArgument unless there is a weight for each of `rows`, or for as many neighbouring
/// rows each.
inline void check_row_weights(const char* op, const TensorRef& weight, std::size_t rows) {
  check_packed_float(op, "weight", weight, {weight.size()});
  HCTR_CHECK(weight.size() > 0 && rows % weight.size() == 0, op, ": weight has ", weight.size(),
             " numbers, must have one for as many rows each of the ", rows, " of x");
}

/// The weight of row r, which is that of its sample.
class RowWeights {
 public:
  explicit RowWeights(const TensorRef& weight, std::size_t rows)
      : data_(weight.ptr<float>()),
        rows_per_sample_(std::max<std::size_t>(1, rows / std::max<std::size_t>(1, weight.size()))) {
  }
  float operator[](std::size_t row) const { return data_[row / rows_per_sample_]; }

 private:
  const float* data_;
  std::size_t rows_per_sample_;
};

}  // namespace hugectr
