// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/float8.hpp"
#include "core/cpp/ops/loops/matrix.hpp"

namespace hugectr {

inline constexpr std::size_t kFloat8Grain = 1 << 14;  ///< numbers a task

/// A factor of a product on the CPU: a float32 matrix as it is, or with its numbers rounded to
/// those that fp8 has under the tensor's scale (float8.hpp). Sums stay float32, so a product of
/// such factors is that of fp8 tensor cores but for the order of the sums.
class Float8Factor {
 public:
  /// `rounded` false: `matrix` itself, nothing is copied.
  Float8Factor(ThreadPool& pool, const Matrix& matrix, Float8 kind, bool rounded);
  Float8Factor(const Float8Factor&) = delete;
  Float8Factor& operator=(const Float8Factor&) = delete;

  const Matrix& matrix() const { return matrix_; }

 private:
  Matrix matrix_;
  std::vector<float> values_;
};

inline Float8Factor::Float8Factor(ThreadPool& pool, const Matrix& matrix, Float8 kind, bool rounded)
    : matrix_(matrix) {
  if (!rounded || matrix.rows == 0 || matrix.columns == 0) return;
  const std::size_t columns = matrix.columns;
  const std::size_t grain = std::max<std::size_t>(1, kFloat8Grain / columns);
  std::vector<std::uint32_t> largest((matrix.rows + grain - 1) / grain);
  parallel_for(pool, matrix.rows, grain, [&](std::size_t begin, std::size_t end) {
    std::uint32_t most = 0;
    for (std::size_t r = begin; r < end; ++r) {
      const float* const row = matrix.row(r);
      for (std::size_t j = 0; j < columns; ++j) most = std::max(most, float8_size(row[j]));
    }
    largest[begin / grain] = most;
  });
  const int k = float8_exponent(kind, *std::max_element(largest.begin(), largest.end()));
  const float scale = float8::power_of_two(k), inverse = float8::power_of_two(-k);
  values_.resize(matrix.rows * columns);
  parallel_for(pool, matrix.rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const float* __restrict row = matrix.row(r);
      float* __restrict to = values_.data() + r * columns;
      for (std::size_t j = 0; j < columns; ++j) {
        to[j] = round_to_float8(kind, row[j] * inverse) * scale;
      }
    }
  });
  matrix_.data = values_.data();
  matrix_.stride = columns;
  matrix_.spare = 0;
}

}  // namespace hugectr
