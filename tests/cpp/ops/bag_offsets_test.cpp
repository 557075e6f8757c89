// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/bag_offsets.hpp"

#include <gtest/gtest.h>

#include "tests/cpp/ops/op_run.hpp"

namespace hugectr::test {
namespace {

TEST(BagOffsetsOp, CountsFromTheFirstKeyOfTheFeature) {
  OpRun on;
  std::vector<std::int64_t> offsets{7, 9, 9, 12}, wrong{0};
  Numbers bags(4, 99);
  on(BagOffsets{.offsets = on.ref(offsets),
                .bags = on.ref(bags),
                .wrong = on.ref(wrong),
                .first = 7,
                .last = 12});
  EXPECT_EQ(bags, (Numbers{0, 2, 2, 5}));
  EXPECT_EQ(wrong[0], 0);
}

TEST(BagOffsetsOp, SaysWhatIsWrongAndNamesNoOtherKey) {
  OpRun on;
  std::vector<std::int64_t> offsets{7, 10, -3, 900, 12}, wrong{0};
  Numbers bags(5, 99);
  on(BagOffsets{.offsets = on.ref(offsets),
                .bags = on.ref(bags),
                .wrong = on.ref(wrong),
                .first = 7,
                .last = 12});
  EXPECT_EQ(bags, (Numbers{0, 3, 0, 5, 5}));
  EXPECT_EQ(wrong[0], 1);
}

}  // namespace
}  // namespace hugectr::test
