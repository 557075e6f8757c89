// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/serving/row_sharing.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace hugectr {
namespace {

using Way = RowSharing::Way;

struct Counts {
  int alone = 0, roused = 0, shared = 0;
};

/// Rows where somebody is awake, and helps, or not.
Counts rows(RowSharing& sharing, int n, bool awake, bool helps) {
  Counts counts;
  for (int i = 0; i < n; ++i) {
    const Way way = sharing.next(awake);
    counts.alone += way == Way::Alone;
    counts.roused += way == Way::Rouse;
    counts.shared += way == Way::Shared;
    if (way == Way::Shared) sharing.shared(helps);
  }
  return counts;
}

TEST(RowSharing, RousesSomebodyAndSharesFromWhenItIsAwake) {
  for (int rows_to_wake = 0; rows_to_wake < RowSharing::kWaking; ++rows_to_wake) {
    RowSharing sharing;
    const Counts before = rows(sharing, 1 + rows_to_wake, false, false);
    EXPECT_EQ(before.roused, 1);
    EXPECT_EQ(before.shared, 0);
    EXPECT_EQ(rows(sharing, 1000, true, true).shared, 1000);
  }
}

TEST(RowSharing, RestsLongerEachTimeNobodyHelps) {
  for (const bool awake : {false, true}) {  // nobody is awake, or those who are have no core
    RowSharing sharing;
    std::vector<int> at;
    for (int i = 0; i < 100'000; ++i) {
      const Way way = sharing.next(awake);
      if (way == Way::Rouse) at.push_back(i);
      if (way == Way::Shared) sharing.shared(false);
    }
    ASSERT_GT(at.size(), 12u);
    EXPECT_LT(at.size(), 40u);
    for (std::size_t i = 2; i < at.size(); ++i) EXPECT_GE(at[i] - at[i - 1], at[i - 1] - at[i - 2]);
    EXPECT_GE(at.back() - at[at.size() - 2], RowSharing::kMostRest);
  }
}

TEST(RowSharing, HelpMakesTheNextRestShort) {
  RowSharing sharing;
  rows(sharing, 100'000, true, false);
  while (sharing.next(true) != Way::Shared) {
  }
  sharing.shared(true);
  EXPECT_EQ(sharing.next(false), Way::Alone);  // they went to sleep
  EXPECT_EQ(rows(sharing, RowSharing::kLeastRest, true, true).roused, 1);
  EXPECT_EQ(sharing.next(true), Way::Shared);
}

}  // namespace
}  // namespace hugectr
