// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/bucket_scale.hpp"

#include <gtest/gtest.h>

#include "tests/cpp/ops/op_run.hpp"

namespace hugectr::test {
namespace {

TEST(BucketScaleOp, IsOneOverTheKeysOfTheBucket) {
  OpRun on;
  Numbers offsets{0, 4, 4, 5, 8};
  Floats scale(4, -1.0f);
  on(BucketScale{.row_offsets = on.ref(offsets), .scale = on.ref(scale)});
  EXPECT_EQ(scale, (Floats{0.25f, 1.0f, 1.0f, 1.0f / 3}));
}

TEST(BucketScaleOp, RefusesAnotherNumberOfBuckets) {
  OpRun on;
  Numbers offsets{0, 4};
  Floats scale(2);
  EXPECT_THROW(on(BucketScale{.row_offsets = on.ref(offsets), .scale = on.ref(scale)}),
               InvalidArgument);
}

}  // namespace
}  // namespace hugectr::test
