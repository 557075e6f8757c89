// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/crc32.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace hugectr {
namespace {

/// Bit by bit, as the standard says it.
std::uint32_t plain_sum(const unsigned char* data, std::size_t bytes, std::uint32_t before) {
  std::uint32_t sum = ~before;
  for (std::size_t i = 0; i < bytes; ++i) {
    sum ^= data[i];
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320U : 0U);
  }
  return ~sum;
}

TEST(Crc32, IsThatOfTheStandard) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc32(digits.data(), digits.size()), 0xCBF43926U);
  EXPECT_EQ(crc32(nullptr, 0), 0U);
}

TEST(Crc32, OfAnyLengthAndPlaceGoesOnFromWhatWasBefore) {
  std::mt19937 random(3);
  std::vector<unsigned char> data(1 << 14);
  for (auto& byte : data) byte = static_cast<unsigned char>(random());
  const auto check = [&](std::size_t at, std::size_t bytes) {
    const std::uint32_t before = random();
    ASSERT_EQ(crc32(&data[at], bytes, before), plain_sum(&data[at], bytes, before))
        << bytes << " bytes from " << at << " on";
  };
  for (std::size_t bytes = 0; bytes < 400; ++bytes) check(random() % 64, bytes);
  for (int turn = 0; turn < 100; ++turn) check(random() % 64, random() % 16'000);
  const std::uint32_t half = crc32(data.data(), 5000);
  EXPECT_EQ(crc32(&data[5000], 3000, half), crc32(data.data(), 8000));
}

}  // namespace
}  // namespace hugectr
