// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/row_group.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

TEST(RowGroup, HoldsRowsOfEverySize) {
  for (const std::size_t row_bytes : {1, 4, 68, 260, 516, 2032, 2033, 4076, 4077, 12296, 1 << 20}) {
    const GroupShape shape(row_bytes);
    EXPECT_EQ(shape.bytes() % 4096, 0U);
    EXPECT_GE(shape.capacity(), 1U);
    EXPECT_LE(shape.capacity(), 65535U);
    EXPECT_LT(shape.bytes(), row_bytes + 2 * 4096);
    // Numbers and rows lie one behind the other in it, and no more would fit.
    const std::size_t used = 16 + shape.capacity() * (row_bytes + 4);
    EXPECT_LE(used, shape.bytes());
    EXPECT_GT(used + row_bytes + 4 + 7, shape.bytes());
    std::vector<std::byte> group(shape.bytes(), std::byte{0xAA});
    for (std::size_t p = 0; p < shape.capacity(); ++p) {
      shape.set_number(group.data(), p, static_cast<std::uint32_t>(p * 7 + 1));
      std::memset(shape.row(group.data(), p), static_cast<int>(p + 1), row_bytes);
    }
    shape.seal(group.data(), shape.capacity(), 9, 3);
    EXPECT_EQ(shape.damage(group.data(), 9, 3), "");
    EXPECT_EQ(shape.rows(group.data()), shape.capacity());
    for (std::size_t p = 0; p < shape.capacity(); ++p) {
      EXPECT_EQ(shape.number(group.data(), p), p * 7 + 1);
      EXPECT_EQ(shape.row(group.data(), p)[row_bytes - 1], static_cast<std::byte>(p + 1));
    }
  }
  EXPECT_THROW(GroupShape(0), InvalidArgument);
  EXPECT_THROW(GroupShape((std::size_t{1} << 20) + 1), InvalidArgument);
}

TEST(RowGroup, SeesEveryChangedBitAndWrongPlace) {
  const GroupShape shape(100);
  std::mt19937 random(3);
  std::vector<std::byte> group(shape.bytes());
  for (std::byte& b : group) b = static_cast<std::byte>(random());
  shape.seal(group.data(), 5, 1, 2);
  ASSERT_EQ(shape.damage(group.data(), 1, 2), "");
  for (std::size_t bit = 0; bit < 8 * group.size(); bit += 1 + random() % 7) {
    group[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_NE(shape.damage(group.data(), 1, 2), "") << bit;
    group[bit / 8] ^= std::byte{1} << bit % 8;
  }
  EXPECT_NE(shape.damage(group.data(), 1, 3), "");
  EXPECT_NE(shape.damage(group.data(), 2, 2), "");
  const std::vector<std::byte> hole(shape.bytes());  // what a reserved file reads as
  EXPECT_NE(shape.damage(hole.data(), 0, 0), "");
}

}  // namespace
}  // namespace hugectr
