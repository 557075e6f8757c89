// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/cpp/base/random.hpp"

namespace hugectr {
namespace {

TEST(Half, EveryFloat16SurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const Float16 h{static_cast<std::uint16_t>(bits)};
    ASSERT_EQ(to_float16(to_float(h)).bits, bits);
  }
}

TEST(Half, EveryBFloat16SurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const BFloat16 b{static_cast<std::uint16_t>(bits)};
    ASSERT_EQ(to_bfloat16(to_float(b)).bits, bits);
  }
}

/// Value of a finite, positive Float16 from the definition of the format.
double value_of(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10);
  const double mantissa = bits & 0x3ffu;
  return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024.0 + mantissa, exponent - 25);
}

TEST(Half, ToFloatGivesTheValueOfTheFormat) {
  for (std::uint32_t bits = 0; bits < 0x7c00u; ++bits) {
    ASSERT_EQ(to_float(Float16{static_cast<std::uint16_t>(bits)}), value_of(bits));
    ASSERT_EQ(to_float(Float16{static_cast<std::uint16_t>(bits | 0x8000u)}), -value_of(bits));
  }
  EXPECT_EQ(to_float(Float16{0x7c00}), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(to_float(Float16{0x7e00})));
}

TEST(Half, RoundsToNearestEvenBetweenAllNeighbours) {
  // Between two neighbours a < b: the middle goes to the even one, its own neighbours to the
  // nearer one. value_of(0x7c00) is 65536, where infinity begins.
  for (std::uint32_t bits = 0; bits < 0x7c00u; ++bits) {
    const auto middle = static_cast<float>((value_of(bits) + value_of(bits + 1)) / 2);
    const std::uint32_t even = (bits & 1u) == 0 ? bits : bits + 1;
    ASSERT_EQ(to_float16(middle).bits, even) << bits;
    ASSERT_EQ(to_float16(std::nextafterf(middle, 0.0f)).bits, bits);
    ASSERT_EQ(to_float16(std::nextafterf(middle, 1e9f)).bits, bits + 1);
    ASSERT_EQ(to_float16(-middle).bits, even | 0x8000u);
  }
}

#ifdef __FLT16_MANT_DIG__
TEST(Half, AgreesWithTheCompilerOnRandomFloats) {
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    const Philox4 r = philox4x32(7, i, 0);
    for (const std::uint32_t word : r.x) {
      // Half of the words get an exponent in or near the range of Float16.
      const std::uint32_t bits =
          (i & 1u) != 0 ? word : (word & 0x807fffffu) | ((100u + (word >> 3) % 48u) << 23);
      const auto value = std::bit_cast<float>(bits);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(to_float(to_float16(value))));
        continue;
      }
      ASSERT_EQ(to_float16(value).bits, std::bit_cast<std::uint16_t>(static_cast<_Float16>(value)))
          << value;
    }
  }
}
#endif

TEST(Half, BFloat16RoundsToNearestEven) {
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const std::uint32_t bits = philox4x32(8, i, 0).x[0];
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(to_bfloat16(value))));
      continue;
    }
    const std::uint32_t down = bits >> 16;
    const std::uint32_t rest = bits & 0xffffu;
    const std::uint32_t expected = rest < 0x8000u   ? down
                                   : rest > 0x8000u ? down + 1
                                                    : down + (down & 1u);
    ASSERT_EQ(to_bfloat16(value).bits, expected);
  }
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // a tie, down is even
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);  // a tie, up is even
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace hugectr
