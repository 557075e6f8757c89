// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

/// Sums over the batch that come out the same with any number of threads: pieces of the batch are
/// summed into rows of a scratch tensor, and the rows are added in order.
namespace hugectr {

/// Samples summed into one row: at most 64 rows of scratch, at least 256 samples a row.
inline std::size_t samples_per_partial(std::size_t batch) {
  return std::max<std::size_t>(256, (batch + 63) / 64);
}

/// Rows of the scratch tensor.
inline std::size_t partial_rows(std::size_t batch) {
  const std::size_t samples = samples_per_partial(batch);
  return (batch + samples - 1) / samples;
}

/// target[j] += sum over rows r, in order, of partial[r, column + j], in double, for j < count.
inline void add_partials(ThreadPool& pool, const TensorRef& partial, std::size_t column,
                         std::size_t count, float* target) {
  constexpr std::size_t kBlock = 256;
  parallel_for(pool, count, kBlock, [&](std::size_t begin, std::size_t end) {
    double sum[kBlock] = {};
    for (std::size_t row = 0; row < partial.rows(); ++row) {
      const float* __restrict values = partial.row<float>(row) + column + begin;
      for (std::size_t j = 0; j < end - begin; ++j) sum[j] += static_cast<double>(values[j]);
    }
    for (std::size_t j = begin; j < end; ++j) {
      target[j] = static_cast<float>(static_cast<double>(target[j]) + sum[j - begin]);
    }
  });
}

}  // namespace hugectr
