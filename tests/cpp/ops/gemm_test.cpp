// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <random>
#include <vector>

#include "core/cpp/device/thread_pool.hpp"

/// Numbers of all shapes: tests/py/ops/test_gemm.py.
namespace hugectr {
namespace {

std::vector<float> drawn(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> numbers(-1.0f, 1.0f);
  std::vector<float> values(n);
  for (float& value : values) value = numbers(random);
  return values;
}

Matrix matrix(std::vector<float>& values, std::size_t rows) {
  TensorRef ref;
  ref.data = values.data();
  ref.dtype = TensorScalarType::Float32;
  ref.device = {DeviceType::Cpu, 0};
  ref.shape = {rows, values.size() / rows};
  ref.row_stride = ref.row_size();
  return Matrix(ref);
}

// Wide enough that a row is shared out; 429 and 700 are no multiples of what is done at a time.
TEST(Gemm, OneRowHasTheSameBitsOnAnyThreadsAndInABatch) {
  for (const std::size_t k : {429, 700}) {
    for (const std::size_t n : {400, 413}) {
      std::vector<float> a = drawn(7 * k, 1), b = drawn(k * n, 2), all(7 * n);
      ThreadPool alone(1);
      gemm(alone, {.a = matrix(a, 7), .b = matrix(b, k), .c = matrix(all, 7), .rows_alike = true});
      std::vector<float> row(a.end() - static_cast<std::ptrdiff_t>(k), a.end());
      const std::vector<float> wanted(all.end() - static_cast<std::ptrdiff_t>(n), all.end());
      for (const std::size_t threads : {1, 2, 3, 5}) {
        ThreadPool pool(threads);
        std::vector<float> found(n, std::nanf(""));
        std::vector<int> told(n);
        std::mutex mutex;
        gemm(pool,
             {.a = matrix(row, 1), .b = matrix(b, k), .c = matrix(found, 1), .rows_alike = true},
             [&](std::size_t, std::size_t, std::size_t begin, std::size_t end) {
               const std::lock_guard lock(mutex);
               for (std::size_t j = begin; j < end; ++j) ++told[j];
             });
        EXPECT_EQ(found, wanted) << k << " x " << n << " on " << threads;
        EXPECT_EQ(told, std::vector<int>(n, 1));
      }
    }
  }
}

}  // namespace
}  // namespace hugectr
