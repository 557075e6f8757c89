// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_range.hpp"

#include <gtest/gtest.h>

namespace hugectr {
namespace {

TEST(NormRangePool, WhatComesBackIsUsedAgain) {
  auto pool = std::make_shared<NormRangePool>();
  auto first = pool->take(), second = pool->take();
  const NormRange* const warm = first.get();
  EXPECT_NE(warm, second.get());
  first->bytes.reserve(1000);
  first.reset();
  const auto again = pool->take();
  EXPECT_EQ(again.get(), warm);
  EXPECT_GE(again->bytes.capacity(), 1000u);
  pool.reset();  // ranges may outlive their source
  second.reset();
}

}  // namespace
}  // namespace hugectr
