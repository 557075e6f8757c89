// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/stamp_rows.hpp"

#include <gtest/gtest.h>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "tests/cpp/ops/op_run.hpp"

namespace hugectr::test {
namespace {

TEST(StampRowsOp, StampsTheFirstCountRowsOnly) {
  OpRun on;
  Numbers rows{4, 1, kNoRow, 3, 0}, stamps(5, 2);
  std::vector<std::int64_t> count{4};
  on(StampRows{.rows = on.ref(rows), .count = on.ref(count), .stamps = on.ref(stamps), .stamp = 7});
  EXPECT_EQ(stamps, (Numbers{2, 7, 2, 7, 7}));
  on(StampRows{.rows = on.ref(rows), .stamps = on.ref(stamps), .first = 4, .stamp = 9});
  EXPECT_EQ(stamps, (Numbers{2, 7, 2, 7, 9}));
  EXPECT_THROW(on(StampRows{.rows = on.ref(rows), .stamps = on.ref(stamps), .stamp = -1}),
               InvalidArgument);
}

}  // namespace
}  // namespace hugectr::test
