// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/expand_buckets.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/cpp/ops/op_run.hpp"

namespace hugectr::test {
namespace {

TEST(ExpandBucketsOp, NamesTheBucketOfEveryKey) {
  OpRun on;
  std::mt19937 random(3);
  Numbers offsets{0}, expected;
  for (std::uint32_t bucket = 0; bucket < 30'000; ++bucket) {  // several pieces
    for (unsigned i = random() % 4; i > 0; --i) expected.push_back(bucket);
    offsets.push_back(static_cast<std::uint32_t>(expected.size()));
  }
  Numbers buckets(expected.size(), 99);
  on(ExpandBuckets{.row_offsets = on.ref(offsets), .buckets = on.ref(buckets)});
  EXPECT_EQ(buckets, expected);
}

}  // namespace
}  // namespace hugectr::test
