// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/serving/row_sharing.hpp"

#include <gtest/gtest.h>

namespace hugectr {
namespace {

using Time = RowSharing::Duration;
constexpr int kTrial = RowSharing::kAlone + RowSharing::kWaking + RowSharing::kShared;

/// Rows of which shared ones took `shared`, others `alone`; how many were shared.
int shared_of(RowSharing& sharing, int rows, int alone, int shared) {
  int found = 0;
  for (int i = 0; i < rows; ++i) {
    const bool is_shared = sharing.next();
    sharing.took(is_shared, Time(is_shared ? shared : alone));
    found += is_shared;
  }
  return found;
}

TEST(RowSharing, StaysWithWhatWasFaster) {
  RowSharing sharing;
  EXPECT_EQ(shared_of(sharing, kTrial, 100, 70), kTrial - RowSharing::kAlone);
  EXPECT_EQ(shared_of(sharing, RowSharing::kStay, 100, 70), RowSharing::kStay);
  RowSharing other;
  EXPECT_EQ(shared_of(other, kTrial, 100, 108), kTrial - RowSharing::kAlone);
  EXPECT_EQ(shared_of(other, RowSharing::kStay, 100, 108), 0);
}

TEST(RowSharing, TriesAgainWhenTimesHaveChanged) {
  RowSharing sharing;
  shared_of(sharing, kTrial + RowSharing::kStay, 100, 108);
  shared_of(sharing, kTrial, 100, 70);
  EXPECT_EQ(shared_of(sharing, RowSharing::kStay, 100, 70), RowSharing::kStay);
  shared_of(sharing, kTrial, 60, 70);
  EXPECT_EQ(shared_of(sharing, RowSharing::kStay, 60, 70), 0);
}

TEST(RowSharing, NeedsMostOfTheRowsToBeFaster) {
  for (const int slow : {2, 3}) {
    RowSharing sharing;
    shared_of(sharing, RowSharing::kAlone, 100, 0);
    shared_of(sharing, RowSharing::kWaking, 0, 500);  // before others are awake: not counted
    shared_of(sharing, slow, 0, 101);
    shared_of(sharing, RowSharing::kShared - slow, 0, 50);
    EXPECT_EQ(shared_of(sharing, RowSharing::kStay, 100, 50), slow == 2 ? RowSharing::kStay : 0);
  }
}

}  // namespace
}  // namespace hugectr
