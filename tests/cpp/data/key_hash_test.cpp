// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/key_hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

constexpr std::uint64_t kSeed = 0x1234567890ABCDEFull;
constexpr std::int64_t kMissing = 77;
constexpr std::int64_t kReserved = std::numeric_limits<std::int64_t>::max();

/// The bytes that the sanity checks of xxHash hash (cli/xsum_sanity_check.c: fillTestBuffer).
std::vector<unsigned char> sanity_bytes(std::size_t count) {
  std::vector<unsigned char> bytes(count);
  std::uint64_t generator = 2654435761u;
  for (unsigned char& byte : bytes) {
    byte = static_cast<unsigned char>(generator >> 56);
    generator *= 11400714785074694797ull;
  }
  return bytes;
}

TEST(KeyHash, Xxh64GivesThePublishedValues) {
  const auto bytes = sanity_bytes(222);
  constexpr std::uint64_t kPrime32 = 2654435761u;
  struct Vector {
    std::size_t bytes;
    std::uint64_t seed, hash;
  };
  for (const Vector& one : {Vector{0, 0, 0xEF46DB3751D8E999ull},
                            {0, kPrime32, 0xAC75FDA2929B17EFull},
                            {1, 0, 0xE934A84ADB052768ull},
                            {1, kPrime32, 0x5014607643A9B4C3ull},
                            {4, 0, 0x9136A0DCA57457EEull},
                            {14, 0, 0x8282DCC4994E35C8ull},
                            {14, kPrime32, 0xC3BD6BF63DEB6DF0ull},
                            {222, 0, 0xB641AE8CB691C174ull},
                            {222, kPrime32, 0x20CB8AB7AE10C14Aull}}) {
    EXPECT_EQ(xxh64(bytes.data(), one.bytes, one.seed), one.hash) << one.bytes << " bytes";
  }
}

std::int64_t expected(const void* data, std::size_t bytes, std::uint64_t seed = kSeed) {
  const auto key = static_cast<std::int64_t>(xxh64(data, bytes, seed) >> 1);
  return key == kReserved ? kReserved - 1 : key;
}

/// Keys of a column given by its buffers.
std::vector<std::int64_t> keys_of(const char* format, std::vector<const void*> buffers,
                                  std::int64_t length, std::int64_t offset = 0,
                                  std::size_t threads = 2) {
  ArrowSchema schema{};
  schema.format = format;
  ArrowArray array{};
  array.length = length;
  array.offset = offset;
  array.null_count = -1;
  array.n_buffers = static_cast<std::int64_t>(buffers.size());
  array.buffers = buffers.data();
  ThreadPool pool(threads);
  std::vector<std::int64_t> keys(static_cast<std::size_t>(length), -1);
  hash_keys(pool, schema, array, {kSeed, kMissing}, keys.data());
  return keys;
}

TEST(KeyHash, TextOfAllLayoutsHasTheSameKeys) {
  const std::string text = "Osloa town of more than twelve letters";
  const std::vector<std::int32_t> small{0, 4, 4, 38};
  const std::vector<std::int64_t> large{0, 4, 4, 38};
  const std::vector<std::int64_t> wanted{expected("Oslo", 4), expected("", 0),
                                         expected(text.data() + 4, 34)};
  EXPECT_EQ(keys_of("u", {nullptr, small.data(), text.data()}, 3), wanted);
  EXPECT_EQ(keys_of("U", {nullptr, large.data(), text.data()}, 3), wanted);

  std::array<unsigned char, 48> views{};
  const std::int32_t four = 4, long_one = 34, buffer = 0, begin = 4;
  std::memcpy(views.data(), &four, 4);
  std::memcpy(views.data() + 4, "Oslo", 4);
  std::memcpy(views.data() + 32, &long_one, 4);
  std::memcpy(views.data() + 40, &buffer, 4);
  std::memcpy(views.data() + 44, &begin, 4);
  const std::int64_t size = 38;
  EXPECT_EQ(keys_of("vu", {nullptr, views.data(), text.data(), &size}, 3), wanted);
  const std::int64_t short_by_one = 37;
  EXPECT_THROW(keys_of("vu", {nullptr, views.data(), text.data(), &short_by_one}, 3), DataError);
}

TEST(KeyHash, TextOutsideOfItsColumnIsNotRead) {
  const char text[] = "Oslo";
  constexpr std::int32_t kFar = 2'000'000'000;  // bytes that would be hashed first
  for (const std::vector<std::int32_t>& offsets : {std::vector{0, 4, 3, 4},
                                                   {0, kFar, kFar, 4},
                                                   {0, -kFar, 0, 4},
                                                   {-kFar, 0, 0, 4},
                                                   {0, 0, 4, -kFar},
                                                   {2, 4, 4, 0}}) {
    EXPECT_THROW(keys_of("u", {nullptr, offsets.data(), text}, 3), DataError);
    const std::vector<std::int64_t> large(offsets.begin(), offsets.end());
    EXPECT_THROW(keys_of("U", {nullptr, large.data(), text}, 3), DataError);
  }
  const std::vector<std::int32_t> part{1, 2, 4};  // of a column that was cut before and behind
  EXPECT_EQ(keys_of("u", {nullptr, part.data(), text}, 2),
            (std::vector<std::int64_t>{expected("s", 1), expected("lo", 2)}));
}

TEST(KeyHash, NumbersThatAreEqualHaveOneKey) {
  const std::vector<std::int64_t> wide{-3, 0, 120};
  const std::vector<std::int8_t> narrow{-3, 0, 120};
  const std::vector<double> floats{-3.0, -0.0, 120.0};
  const std::vector<float> singles{-3.0f, 0.0f, 120.0f};
  std::vector<std::int64_t> wanted;
  for (const std::int64_t value : wide) wanted.push_back(expected(&value, 8));
  EXPECT_EQ(keys_of("l", {nullptr, wide.data()}, 3), wanted);
  EXPECT_EQ(keys_of("c", {nullptr, narrow.data()}, 3), wanted);
  EXPECT_EQ(keys_of("g", {nullptr, floats.data()}, 3), wanted);
  EXPECT_EQ(keys_of("f", {nullptr, singles.data()}, 3), wanted);

  const std::vector<std::uint64_t> huge{std::uint64_t{1} << 63};
  const std::vector<double> as_float{0x1p63}, others{0.5, 0x1p70};
  EXPECT_EQ(keys_of("L", {nullptr, huge.data()}, 1), keys_of("g", {nullptr, as_float.data()}, 1));
  const auto half = keys_of("g", {nullptr, others.data()}, 2);
  EXPECT_EQ(half[0], expected(others.data(), 8, ~kSeed));
  const std::vector<std::int64_t> same_bits{std::bit_cast<std::int64_t>(0.5)};
  EXPECT_NE(keys_of("l", {nullptr, same_bits.data()}, 1)[0], half[0]);
}

TEST(KeyHash, WhatIsNotThereHasTheMissingKeyWhereverAColumnBegins) {
  const std::vector<std::int64_t> values{1, 2, 3, 4, 5};
  const std::uint8_t valid = 0b10110;  // of 1 to 5: not 1, not 4
  const auto all = keys_of("l", {&valid, values.data()}, 5);
  EXPECT_EQ(all[0], kMissing);
  EXPECT_EQ(all[3], kMissing);
  EXPECT_EQ(all[1], expected(values.data() + 1, 8));
  const auto part = keys_of("l", {&valid, values.data()}, 3, 2);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 2));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(keys_of("g", {nullptr, &nan}, 1)[0], kMissing);
  EXPECT_EQ(keys_of("n", {}, 2), (std::vector<std::int64_t>{kMissing, kMissing}));
  EXPECT_THROW(keys_of("tdD", {nullptr, values.data()}, 1), DataError);
  EXPECT_THROW(keys_of("l", {nullptr}, 1), DataError);
}

TEST(KeyHash, KeysAreNeverNegativeOrReservedAndTheSameForAnyThreads) {
  std::vector<std::int64_t> values(100'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i) - 500;
  const auto n = static_cast<std::int64_t>(values.size());
  const auto keys = keys_of("l", {nullptr, values.data()}, n, 0, 1);
  EXPECT_EQ(keys, keys_of("l", {nullptr, values.data()}, n, 0, 3));
  for (const std::int64_t key : keys) {
    ASSERT_GE(key, 0);
    ASSERT_LT(key, kReserved);
  }
  auto sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
}

TEST(KeyHash, UnknownKeysBecomeTheRareOne) {
  std::vector<std::int64_t> keys{5, 6, kMissing, 9, 0};
  const std::vector<std::int64_t> known{5, 9, 40};
  ThreadPool pool(2);
  replace_unknown_keys(pool, keys, known, kMissing, 3);
  EXPECT_EQ(keys, (std::vector<std::int64_t>{5, 3, kMissing, 9, 3}));
}

}  // namespace
}  // namespace hugectr
