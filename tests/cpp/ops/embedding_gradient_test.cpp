// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/embedding_gradient.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/cpp/base/half.hpp"
#include "tests/cpp/ops/op_run.hpp"

namespace hugectr::test {
namespace {

constexpr std::size_t kSamples = 40, kSlots = 3;

/// Runs of the given lengths over random buckets.
struct Batch {
  Batch(std::size_t seed, const std::vector<std::size_t>& lengths) : random(seed) {
    for (const std::size_t length : lengths) {
      run_offsets.push_back(run_offsets.back() + static_cast<std::uint32_t>(length));
    }
    for (std::uint32_t i = 0; i < run_offsets.back(); ++i) {
      sorted_buckets.push_back(static_cast<std::uint32_t>(random() % (kSamples * kSlots)));
    }
    for (float& s : scale) s = std::abs(normal(random));
  }
  std::size_t runs() const { return run_offsets.size() - 1; }

  std::mt19937_64 random;
  std::normal_distribution<float> normal;
  Numbers run_offsets{0}, sorted_buckets;
  Floats scale = Floats(kSamples * kSlots);
};

void check_sums(std::size_t d, const std::vector<std::size_t>& lengths, std::size_t pad,
                bool scaled) {
  SCOPED_TRACE(concat("d ", d, ", pad ", pad, ", scaled ", scaled));
  OpRun on;
  Batch batch(d, lengths);
  const std::size_t stride = kSlots * d + pad;
  Floats gradient(kSamples * stride), sums(batch.runs() * d, NAN);
  for (float& g : gradient) g = batch.normal(batch.random);
  TensorRef gradient_ref = on.ref(gradient, {kSamples, kSlots, d});
  gradient_ref.row_stride = stride;
  on(EmbeddingGradient{.sorted_buckets = on.ref(batch.sorted_buckets),
                       .run_offsets = on.ref(batch.run_offsets),
                       .gradient = gradient_ref,
                       .scale = scaled ? on.ref(batch.scale) : TensorRef{},
                       .sums = on.ref(sums, {batch.runs(), d})});
  double difference = 0, norm = 0;
  for (std::size_t r = 0; r < batch.runs(); ++r) {
    for (std::size_t c = 0; c < d; ++c) {
      double sum = 0;
      for (std::uint32_t i = batch.run_offsets[r]; i < batch.run_offsets[r + 1]; ++i) {
        const std::size_t b = batch.sorted_buckets[i];
        const double scale = scaled ? batch.scale[b] : 1.0;
        sum += scale * gradient[b / kSlots * stride + b % kSlots * d + c];
      }
      const double error = sums[r * d + c] - sum;
      difference += error * error;
      norm += sum * sum;
    }
  }
  EXPECT_LE(std::sqrt(difference / norm), 1e-5);
}

TEST(EmbeddingGradientOp, RunsOfAnyLengthAreSummed) {
  for (const std::size_t d : {1, 5, 8, 16, 32, 64, 100, 128}) {
    check_sums(d, {1, 2, 63, 64, 65, 128, 129, 1000, 5000, 3}, 0, true);
    check_sums(d, std::vector<std::size_t>(1500, 2), 3, false);
  }
}

TEST(EmbeddingGradientOp, SixteenBitsAreRoundedOnce) {
  constexpr std::size_t kDim = 24;
  OpRun on;
  Batch batch(1, {1, 3, 65, 700});
  std::vector<BFloat16> gradient(kSamples * kSlots * kDim), narrow(4 * kDim);
  for (BFloat16& g : gradient) g = to_bfloat16(batch.normal(batch.random));
  Floats wide(narrow.size());
  const auto sum_into = [&](const TensorRef& sums) {
    on(EmbeddingGradient{.sorted_buckets = on.ref(batch.sorted_buckets),
                         .run_offsets = on.ref(batch.run_offsets),
                         .gradient = on.ref(gradient, {kSamples, kSlots, kDim}),
                         .scale = on.ref(batch.scale),
                         .sums = sums});
  };
  sum_into(on.ref(wide, {4, kDim}));
  sum_into(on.ref(narrow, {4, kDim}));
  for (std::size_t i = 0; i < wide.size(); ++i) {
    ASSERT_EQ(narrow[i].bits, to_bfloat16(wide[i]).bits) << i;
  }
}

TEST(EmbeddingGradientOp, RefusesSumsOfAnotherShape) {
  OpRun on;
  Numbers buckets{0}, offsets{0, 1};
  Floats gradient(8), sums(8);
  const auto sum_into = [&](const Shape& shape) {
    on(EmbeddingGradient{.sorted_buckets = on.ref(buckets),
                         .run_offsets = on.ref(offsets),
                         .gradient = on.ref(gradient, {1, 2, 4}),
                         .sums = on.ref(sums, shape)});
  };
  EXPECT_NO_THROW(sum_into({1, 4}));
  EXPECT_NO_THROW(sum_into({0, 4}));
  EXPECT_THROW(sum_into({1, 8}), InvalidArgument);  // not the gradient's d
  EXPECT_THROW(sum_into({2, 4}), InvalidArgument);  // more runs than there are
}

}  // namespace
}  // namespace hugectr::test
