// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/float8.hpp"
#include "core/cpp/ops/loops/matrix.hpp"

namespace hugectr {

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

}  // namespace hugectr
