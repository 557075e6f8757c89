// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/row_hop.hpp"

#include <gtest/gtest.h>

#include "core/cpp/embedding/exchange/request_counts.hpp"

namespace hugectr {
namespace {

using Counts = std::vector<std::size_t>;

/// Four devices, of which 0 and 2 are node 0, and 1 and 3 are node 1.
NodeMap two_nodes() { return NodeMap({{0, 1, 2, 3}, nullptr}, {0, 1, 0, 1}); }

/// counts[owner][kind][asker] = 100 * owner + 10 * kind + asker, of one table.
std::vector<std::int64_t> numbered(std::size_t askers) {
  std::vector<std::int64_t> all;
  for (std::size_t owner = 0; owner < 4; ++owner) {
    for (std::size_t kind = 0; kind < 2; ++kind) {
      for (std::size_t asker = 0; asker < askers; ++asker) {
        all.push_back(static_cast<std::int64_t>(100 * owner + 10 * kind + asker));
      }
    }
  }
  return all;
}

TEST(RowHop, DirectlyEveryDeviceAsksEveryOther) {
  const RowHop hop(RowHop::Kind::Direct, 4, nullptr);
  const auto all = numbered(4);
  const RequestCounts counts(all.data(), hop, 1, 1, 0);
  EXPECT_EQ(counts.sent(2, RequestCounts::kRows), (Counts{200, 201, 202, 203}));
  EXPECT_EQ(counts.came(2, RequestCounts::kRows), (Counts{2, 102, 202, 302}));
  EXPECT_EQ(counts.came(2, RequestCounts::kKeys), (Counts{12, 112, 212, 312}));
  EXPECT_EQ(counts.moved(2, RequestCounts::kRows), 200u + 201 + 203);
}

TEST(RowHop, BetweenNodesRowsGoToTheDeviceOfTheOwnersPlace) {
  const NodeMap nodes = two_nodes();
  const RowHop hop(RowHop::Kind::BetweenNodes, 4, &nodes);
  EXPECT_EQ(hop.numbers(), (std::vector<std::int64_t>{0, 1, 0, 1}));
  const auto all = numbered(2);
  const RequestCounts counts(all.data(), hop, 1, 1, 0);
  // Place 1 is device 2 of node 0 and device 3 of node 1.
  EXPECT_EQ(counts.sent(2, RequestCounts::kRows), (Counts{0, 0, 200, 201}));
  EXPECT_EQ(counts.came(2, RequestCounts::kRows), (Counts{0, 0, 200, 300}));
  EXPECT_EQ(counts.sent(3, RequestCounts::kKeys), (Counts{0, 0, 310, 311}));
  EXPECT_EQ(counts.moved(2, RequestCounts::kRows), 300u);
}

TEST(RowHop, InsideANodeTheyGoToThoseThatAsk) {
  const NodeMap nodes = two_nodes();
  const RowHop hop(RowHop::Kind::InsideNode, 4, &nodes);
  EXPECT_EQ(hop.numbers(), (std::vector<std::int64_t>{0, 0, 1, 1}));
  const auto all = numbered(4);  // of two micro-batches
  const RequestCounts counts(all.data(), hop, 2, 1, 0);
  EXPECT_EQ(counts.sent(3, RequestCounts::kRows), (Counts{0, 300, 0, 301, 0, 302, 0, 303}));
  EXPECT_EQ(counts.came(3, RequestCounts::kRows), (Counts{0, 101, 0, 301, 0, 103, 0, 303}));
}

TEST(RowHop, WhatADeviceCouldNotCountIsSeenByAll) {
  const RowHop hop(RowHop::Kind::Direct, 4, nullptr);
  auto all = numbered(4);
  EXPECT_TRUE(RequestCounts(all.data(), hop, 1, 1, 0).complete());
  all[4 * 2 * 3 + 1] = -1;
  EXPECT_FALSE(RequestCounts(all.data(), hop, 1, 1, 0).complete());
}

TEST(RowHop, APartOfTheCountsHasItsRowsBehindThoseBefore) {
  const Counts counts{3, 0, 5, 7};
  const RowsOfPart second = rows_of_part(counts, {1, 2});
  EXPECT_EQ(second.first, 3u);
  EXPECT_EQ(second.count, 12u);
  EXPECT_EQ(second.of_device, (Counts{5, 7}));
}

}  // namespace
}  // namespace hugectr
