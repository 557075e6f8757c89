// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/bad_data_limit.hpp"

#include <gtest/gtest.h>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

CSRChunk batch(std::size_t samples, std::size_t skipped, std::uint64_t lost = 0,
               std::uint64_t epoch = 0, const std::string& reason = {}) {
  CSRChunk chunk;
  chunk.samples = samples;
  chunk.skipped = skipped;
  chunk.lost = lost;
  chunk.next.epoch = epoch;
  chunk.first_damage = reason;
  return chunk;
}

std::string refusal(BadDataLimit& limit, const CSRChunk& chunk) {
  try {
    limit.add(chunk);
  } catch (const DataError& error) {
    return error.what();
  }
  return {};
}

TEST(BadDataLimit, AHandfulDecidesNothing) {
  BadDataLimit limit(0.1, 0);
  EXPECT_EQ(refusal(limit, batch(64, 63)), "");  // of 1,000, 100 may be bad
  EXPECT_EQ(refusal(limit, batch(64, 37)), "");
  EXPECT_NE(refusal(limit, batch(64, 1)), "");
}

TEST(BadDataLimit, TheShareIsOfAllThatWasRead) {
  BadDataLimit limit(0.1, 0);
  EXPECT_EQ(refusal(limit, batch(10000, 1000)), "");
  const std::string text = refusal(limit, batch(10, 2, 0, 0, "file 'a': why"));
  EXPECT_NE(text.find("1002 of the first 10010 samples"), std::string::npos) << text;
  EXPECT_NE(text.find("file 'a': why"), std::string::npos) << text;
  EXPECT_NE(text.find("max_bad_share"), std::string::npos) << text;
}

TEST(BadDataLimit, LostSamplesCount) {
  BadDataLimit limit(0.5, 0);
  EXPECT_EQ(refusal(limit, batch(1000, 0, 1000)), "");
  EXPECT_NE(refusal(limit, batch(10, 0, 11)), "");
}

TEST(BadDataLimit, AtTheEndOfAPassAnyNumberDecides) {
  BadDataLimit repeated(0.1, 3);
  EXPECT_EQ(refusal(repeated, batch(4, 1, 0, 3)), "");
  EXPECT_NE(refusal(repeated, batch(4, 0, 0, 4)), "");
  BadDataLimit once(0.1, 0);
  EXPECT_EQ(refusal(once, batch(5, 1)), "");
  EXPECT_THROW(once.end(0), DataError);
  BadDataLimit lost(0.1, 0);
  EXPECT_EQ(refusal(lost, batch(9, 0)), "");
  EXPECT_THROW(lost.end(2), DataError);
}

TEST(BadDataLimit, DataOfWhichNothingCountsIsNoData) {
  BadDataLimit all(1.0, 0);
  EXPECT_EQ(refusal(all, batch(16, 16)), "");
  EXPECT_NE(refusal(all, batch(16, 16)), "");
  BadDataLimit few(1.0, 0);
  EXPECT_EQ(refusal(few, batch(3, 3)), "");
  EXPECT_THROW(few.end(0), DataError);
  BadDataLimit one_counts(1.0, 0);
  EXPECT_EQ(refusal(one_counts, batch(64, 63)), "");
  EXPECT_NO_THROW(one_counts.end(0));
}

TEST(BadDataLimit, NoneIsNone) {
  BadDataLimit limit(BadDataLimit::kNone, 0);
  EXPECT_EQ(refusal(limit, batch(5000, 5000)), "");
  EXPECT_NO_THROW(limit.end(7));
}

}  // namespace
}  // namespace hugectr
