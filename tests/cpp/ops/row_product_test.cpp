// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/loops/row_product.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace hugectr {
namespace {

/// Factors of random numbers, the result with gaps between its rows, and the result in float64.
class Product {
 public:
  Product(std::size_t m, std::size_t n, std::size_t k, bool transpose_b, std::size_t gap = 0)
      : m_(m), n_(n), k_(k), transpose_b_(transpose_b), gap_(gap) {
    std::mt19937 random(static_cast<unsigned>(m * 7919 + n * 31 + k));
    std::uniform_real_distribution<float> numbers(-1.0f, 1.0f);
    a_.resize(m * (k + gap));
    b_.resize((transpose_b ? n : k) * ((transpose_b ? k : n) + gap));
    for (float& value : a_) value = numbers(random);
    for (float& value : b_) value = numbers(random);
  }

  /// Rows [first, first + rows) of c.
  std::vector<float> rows(std::size_t first, std::size_t rows) const {
    const float before = std::nanf("");  // what was there does not count
    std::vector<float> c(rows * (n_ + gap_), before);
    row_product({.transpose_b = transpose_b_,
                 .m = rows,
                 .n = n_,
                 .k = k_,
                 .a = a_.data() + first * (k_ + gap_),
                 .a_stride = k_ + gap_,
                 .b = b_.data(),
                 .b_stride = (transpose_b_ ? k_ : n_) + gap_,
                 .c = c.data(),
                 .c_stride = n_ + gap_});
    std::vector<float> values;
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < n_ + gap_; ++j) {
        const float value = c[i * (n_ + gap_) + j];
        if (j < n_) {
          values.push_back(value);
        } else {
          EXPECT_TRUE(std::isnan(value)) << "written beyond the columns of c";
        }
      }
    }
    return values;
  }

  void expect_near() const {
    const std::vector<float> found = rows(0, m_);
    for (std::size_t i = 0; i < m_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) {
        double sum = 0.0, size = 0.0;
        for (std::size_t p = 0; p < k_; ++p) {
          const double x = a_[i * (k_ + gap_) + p];
          const double y = transpose_b_ ? b_[j * (k_ + gap_) + p] : b_[p * (n_ + gap_) + j];
          sum += x * y;
          size += std::abs(x * y);
        }
        ASSERT_NEAR(found[i * n_ + j], sum, 1e-6 * size + 1e-7) << i << ", " << j;
      }
    }
  }

 private:
  std::size_t m_, n_, k_;
  bool transpose_b_;
  std::size_t gap_;
  std::vector<float> a_, b_;
};

TEST(RowProduct, IsTheProductForEveryShape) {
  for (const bool transposed : {false, true}) {
    for (const std::size_t m : {1, 2, 5, 6, 7, 12, 48, 49, 97, 103}) {
      for (const std::size_t n : {1, 7, 16, 17, 32, 33, 48, 130}) {
        for (const std::size_t k : {1, 3, 13, 512, 515}) {
          SCOPED_TRACE(testing::Message() << m << " " << n << " " << k << " " << transposed);
          Product(m, n, k, transposed, (m + n) % 3).expect_near();
        }
      }
    }
    Product(9, 1024, 20, transposed).expect_near();  // rows that lie whole pages apart
    Product(13, 1024, 20, transposed).expect_near();
  }
}

TEST(RowProduct, ARowHasTheSameBitsWhereverItIs) {
  for (const bool transposed : {false, true}) {
    for (const std::size_t k : {13, 700}) {
      const Product product(200, 45, k, transposed);
      const std::vector<float> all = product.rows(0, 200);
      for (const std::size_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 48, 50, 101}) {
        for (const std::size_t first : {0, 1, 7, 99}) {
          const std::vector<float> some = product.rows(first, count);
          const std::vector<float> wanted(
              all.begin() + static_cast<std::ptrdiff_t>(first * 45),
              all.begin() + static_cast<std::ptrdiff_t>((first + count) * 45));
          ASSERT_EQ(some, wanted) << first << ", " << count << " of " << k;
        }
      }
    }
  }
}

TEST(RowProduct, WithoutSummandsItIsZero) {
  for (const float value : Product(7, 20, 0, false).rows(0, 7)) ASSERT_EQ(value, 0.0f);
}

}  // namespace
}  // namespace hugectr
