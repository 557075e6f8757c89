// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/scatter_rows.hpp"

#include <gtest/gtest.h>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "tests/cpp/ops/op_run.hpp"

namespace hugectr::test {
namespace {

TEST(ScatterRowsOp, WritesNamedRowsOnly) {
  OpRun on;
  Numbers rows{2, kNoRow, 0};
  Floats values{1, 2, 3, 4, 5, 6}, target(8, 9.0f);
  on(ScatterRows{
      .rows = on.ref(rows), .values = on.ref(values, {3, 2}), .target = on.ref(target, {4, 2})});
  EXPECT_EQ(target, (Floats{5, 6, 9, 9, 1, 2, 9, 9}));
  std::vector<std::int64_t> steps{7, 8, 9}, last(3, 1);
  on(ScatterRows{
      .rows = on.ref(rows), .values = on.ref(steps, {3, 1}), .target = on.ref(last, {3, 1})});
  EXPECT_EQ(last, (std::vector<std::int64_t>{9, 1, 7}));
}

}  // namespace
}  // namespace hugectr::test
