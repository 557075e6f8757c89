// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/embedding_lookup.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "tests/cpp/ops/op_run.hpp"

namespace hugectr::test {
namespace {

void check(std::size_t d, bool mean, std::size_t pad) {
  SCOPED_TRACE(concat("d ", d, ", mean ", mean, ", pad ", pad));
  constexpr std::size_t kSamples = 700, kSlots = 3, kRows = 50;
  OpRun on;
  std::mt19937_64 random(d);
  std::normal_distribution<float> normal;
  Floats weights(kRows * d), scale(kSamples * kSlots);
  for (float& w : weights) w = normal(random);
  for (float& s : scale) s = mean ? std::abs(normal(random)) : 1.0f;
  Numbers offsets{0}, rows;
  for (std::size_t b = 0; b < kSamples * kSlots; ++b) {
    for (std::size_t i = random() % 4; i > 0; --i) {
      rows.push_back(random() % 5 == 0 ? kNoRow : static_cast<std::uint32_t>(random() % kRows));
    }
    offsets.push_back(static_cast<std::uint32_t>(rows.size()));
  }
  const std::size_t stride = kSlots * d + pad;
  Floats out(kSamples * stride, 7.0f);
  TensorRef out_ref = on.ref(out, {kSamples, kSlots, d});
  out_ref.row_stride = stride;
  on(EmbeddingLookup{.rows = on.ref(rows),
                     .row_offsets = on.ref(offsets),
                     .weights = on.ref(weights, {kRows, d}),
                     .scale = mean ? on.ref(scale) : TensorRef{},
                     .out = out_ref});
  double difference = 0, norm = 0;
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    for (std::size_t x = kSlots * d; x < stride; ++x) ASSERT_EQ(out[sample * stride + x], 7.0f);
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const std::size_t bucket = sample * kSlots + slot;
      for (std::size_t c = 0; c < d; ++c) {
        double sum = 0;
        for (std::uint32_t i = offsets[bucket]; i < offsets[bucket + 1]; ++i) {
          if (rows[i] != kNoRow) sum += weights[rows[i] * d + c];
        }
        sum *= scale[bucket];
        const double error = out[sample * stride + slot * d + c] - sum;
        difference += error * error;
        norm += sum * sum;
      }
    }
  }
  EXPECT_LE(std::sqrt(difference / norm), 1e-5);
}

TEST(EmbeddingLookupOp, GathersAndCombines) {
  for (const std::size_t d : {1, 7, 8, 11, 16, 32, 64, 100, 128}) {
    check(d, false, 0);
    check(d, true, 5);
  }
}

}  // namespace
}  // namespace hugectr::test
