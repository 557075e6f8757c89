// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/random.hpp"

#include <gtest/gtest.h>

#include <set>

namespace hugectr {
namespace {

void expect_words(const Philox4& r, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                  std::uint32_t d) {
  EXPECT_EQ(r.x[0], a);
  EXPECT_EQ(r.x[1], b);
  EXPECT_EQ(r.x[2], c);
  EXPECT_EQ(r.x[3], d);
}

TEST(Philox, KnownAnswers) {
  expect_words(philox4x32(0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  expect_words(philox4x32(~0ull, ~0ull, ~0ull), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
  // Digits of pi, words in the order of the paper's counter and key.
  expect_words(philox4x32(0x299f31d0a4093822ull, 0x85a308d3243f6a88ull, 0x0370734413198a2eull),
               0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(UnitFloat, CoversTheHalfOpenInterval) {
  EXPECT_EQ(unit_float(0), 0.0f);
  EXPECT_EQ(unit_float(0xffu), 0.0f);
  EXPECT_EQ(unit_float(0x100u), 0x1p-24f);
  EXPECT_EQ(unit_float(0x80000000u), 0.5f);
  EXPECT_EQ(unit_float(~0u), 1.0f - 0x1p-24f);
}

TEST(SymmetricFloat, StaysInsideAndIsCentred) {
  EXPECT_EQ(symmetric_float(0, 0.05f), -0.05f);
  EXPECT_EQ(symmetric_float(0x80000000u, 0.05f), 0.0f);
  EXPECT_LT(symmetric_float(~0u, 0.05f), 0.05f);
  double sum = 0, squares = 0;
  const int n = 400'000;
  for (int i = 0; i < n / 4; ++i) {
    for (const std::uint32_t word : philox4x32(42, static_cast<std::uint64_t>(i), 0).x) {
      const double value = symmetric_float(word, 1.0f);
      sum += value;
      squares += value * value;
    }
  }
  // Six standard deviations of the mean (1/sqrt(3n)) and of the mean square.
  EXPECT_NEAR(sum / n, 0.0, 6 / std::sqrt(3.0 * n));
  EXPECT_NEAR(squares / n, 1.0 / 3, 6 * std::sqrt(4.0 / 45 / n));
}

TEST(MixKey, NeighboursDoNotCollide) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t a = 0; a < 200; ++a) {
    for (std::uint64_t b = 0; b < 200; ++b) seen.insert(mix_key(a, b));
  }
  EXPECT_EQ(seen.size(), 40'000u);
}

}  // namespace
}  // namespace hugectr
