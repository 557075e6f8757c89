// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/block_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

const std::vector<BlockInfo> kBlocks = {{0, 5}, {0, 1}, {0, 9}, {1, 4}, {2, 7}, {2, 7}};
constexpr std::uint64_t kRows = 33;

/// Number of every sample (counted in file order) in the order of an epoch, asked for in pieces.
std::vector<std::uint64_t> order_of(BlockOrder& order, std::uint64_t epoch, std::uint64_t piece) {
  std::vector<std::uint64_t> first_rows;
  std::uint64_t rows = 0;
  for (const BlockInfo& block : kBlocks) {
    first_rows.push_back(rows);
    rows += block.rows;
  }
  order.start_epoch(epoch);
  std::vector<std::uint64_t> samples;
  std::vector<RowRun> runs;
  for (std::uint64_t first = 0; first < order.rows(); first += piece) {
    runs.clear();
    order.append_runs(first, std::min(piece, order.rows() - first), runs);
    for (const RowRun& run : runs) {
      const std::size_t block = order.block_order()[run.place];
      for (std::uint64_t r = 0; r < run.count; ++r) {
        samples.push_back(first_rows[block] + run.first + r);
      }
    }
  }
  return samples;
}

std::vector<std::uint64_t> linear() {
  std::vector<std::uint64_t> samples(kRows);
  std::iota(samples.begin(), samples.end(), std::uint64_t{0});
  return samples;
}

TEST(BlockOrder, WithoutShufflingItIsThatOfTheFiles) {
  BlockOrder order(kBlocks, {});
  EXPECT_EQ(order.rows(), kRows);
  for (const std::uint64_t piece : {1, 4, 33, 50}) {
    for (const std::uint64_t epoch : {0, 3}) EXPECT_EQ(order_of(order, epoch, piece), linear());
  }
}

TEST(BlockOrder, AnyShuffleIsAPermutationOfTheSeedAndTheEpochAlone) {
  for (const bool files : {false, true}) {
    for (const bool blocks : {false, true}) {
      for (const std::uint64_t window : {0, 1, 2, 6, 33, 1000}) {
        const ShuffleSpec spec{.seed = 9, .files = files, .blocks = blocks, .window = window};
        BlockOrder order(kBlocks, spec), again(kBlocks, spec);
        const auto first = order_of(order, 2, 7);
        auto sorted = first;
        std::sort(sorted.begin(), sorted.end());
        EXPECT_EQ(sorted, linear());
        EXPECT_EQ(order_of(again, 2, 1), first);  // however it is asked for
        order_of(order, 5, 7);
        EXPECT_EQ(order_of(order, 2, 33), first);  // and whatever came between
        EXPECT_TRUE(spec.any() || first == linear());
      }
    }
  }
}

TEST(BlockOrder, EpochsAndSeedsDiffer) {
  BlockOrder order(kBlocks, {.seed = 1, .window = 33}), other(kBlocks, {.seed = 2, .window = 33});
  std::set<std::vector<std::uint64_t>> seen;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    seen.insert(order_of(order, epoch, 33));
    seen.insert(order_of(other, epoch, 33));
  }
  EXPECT_EQ(seen.size(), 10u);
}

TEST(BlockOrder, ShufflingFilesKeepsTheirBlocksTogetherAndInOrder) {
  BlockOrder order(kBlocks, {.seed = 3, .files = true});
  std::set<std::vector<std::size_t>> seen;
  for (std::uint64_t epoch = 0; epoch < 50; ++epoch) {
    order.start_epoch(epoch);
    seen.insert(order.block_order());
    std::vector<std::size_t> files;
    for (const std::size_t b : order.block_order()) {
      if (files.empty() || files.back() != kBlocks[b].file) files.push_back(kBlocks[b].file);
    }
    EXPECT_EQ(files.size(), 3u);
  }
  EXPECT_EQ(seen.size(), 6u);  // every order of three files comes up
}

TEST(BlockOrder, AWindowMovesSamplesInsideItOnly) {
  constexpr std::uint64_t kWindow = 8;
  BlockOrder order(kBlocks, {.seed = 4, .window = kWindow});
  const auto samples = order_of(order, 0, 5);
  for (std::uint64_t i = 0; i < kRows; ++i) EXPECT_EQ(samples[i] / kWindow, i / kWindow);
}

TEST(BlockOrder, ATooLargeWindowIsRefused) {
  EXPECT_THROW(BlockOrder(kBlocks, {.window = std::uint64_t{1} << 40}), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
