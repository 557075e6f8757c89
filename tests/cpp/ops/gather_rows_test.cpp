// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/gather_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/cpp/ops/op_run.hpp"

namespace hugectr::test {
namespace {

TEST(GatherRowsOp, CopiesRowsBitForBit) {
  OpRun on;
  Numbers rows{3, 0, 3};
  Floats source{-0.0f, 1, 2, 3, 4, 5, 6, 7}, values(6);
  on(GatherRows{
      .rows = on.ref(rows), .source = on.ref(source, {4, 2}), .values = on.ref(values, {3, 2})});
  EXPECT_EQ(values, (Floats{6, 7, 0, 1, 6, 7}));
  EXPECT_TRUE(std::signbit(values[2]));
  std::vector<std::int64_t> steps{7, 8, 9, 1}, found(3);
  on(GatherRows{
      .rows = on.ref(rows), .source = on.ref(steps, {4, 1}), .values = on.ref(found, {3, 1})});
  EXPECT_EQ(found, (std::vector<std::int64_t>{1, 7, 1}));
}

}  // namespace
}  // namespace hugectr::test
