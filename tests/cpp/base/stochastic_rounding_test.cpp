// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/stochastic_rounding.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

namespace hugectr {
namespace {

float rounded(float value, std::uint32_t random) {
  return to_float(round_stochastically(value, random));
}

TEST(StochasticRounding, TheMeanOfAllRandomBitsIsTheValue) {
  std::mt19937 engine(3);
  for (int i = 0; i < 40; ++i) {
    float value = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
    if (!std::isfinite(value) || std::abs(value) > 1e38f || std::abs(value) < 1e-37f) value = 0.1f;
    double sum = 0.0;
    std::set<float> seen;
    for (std::uint32_t random = 0; random < 65536; ++random) {
      sum += rounded(value, random);
      seen.insert(rounded(value, random));
    }
    EXPECT_EQ(sum / 65536.0, value);  // a sum of two numbers of 8 bits is exact
    EXPECT_LE(seen.size(), 2u);
    const float below = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xFFFF0000u);
    for (const float one : seen) {
      EXPECT_TRUE(one == below || std::abs(one) > std::abs(value)) << one << " of " << value;
      EXPECT_LE(std::abs(one - below), std::ldexp(std::abs(below), -7));
    }
  }
}

TEST(StochasticRounding, WhatIsABfloat16Stays) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = to_float(BFloat16{static_cast<std::uint16_t>(bits)});
    for (const std::uint32_t random : {0u, 1u, 0x7FFFu, 0xFFFFu}) {
      const BFloat16 found = round_stochastically(value, random);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(to_float(found)));
      } else {
        EXPECT_EQ(found.bits, bits);
      }
    }
  }
}

TEST(StochasticRounding, NothingFiniteBecomesInfiniteAndNanStaysNan) {
  const float most = std::numeric_limits<float>::max();
  const auto just_nan = std::bit_cast<float>(0x7F800001u);
  for (std::uint32_t random = 0; random < 65536; ++random) {
    ASSERT_EQ(rounded(most, random), to_float(BFloat16{0x7F7F}));
    ASSERT_EQ(rounded(-most, random), to_float(BFloat16{0xFF7F}));
    ASSERT_TRUE(std::isnan(rounded(just_nan, random)));
  }
}

TEST(StochasticRounding, StreamsOfIdentitiesStepsAndGroupsDiffer) {
  std::set<std::uint64_t> seen;
  std::size_t drawn = 0;
  for (std::uint64_t table = 0; table < 3; ++table) {
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      for (std::uint64_t key = 0; key < 50; ++key) {
        const std::uint64_t row = row_stream(1, table, slot, key);
        for (std::int64_t step = 1; step < 20; ++step) {
          for (std::uint64_t group = 0; group < 4; ++group, ++drawn) {
            seen.insert(rounding_bits(step_stream(row, step), group));
          }
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), drawn);
}

}  // namespace
}  // namespace hugectr
