// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/nearest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/cpp/base/error.hpp"
#include "tests/cpp/embedding/table_run.hpp"

namespace hugectr::test {
namespace {

SparseEmbeddingHashParams params_of(EmbeddingType type) {
  SparseEmbeddingHashParams params;
  params.name = "table";
  params.type = type;
  params.slot_num = 3;
  params.embedding_vec_size = 5;
  params.i64_keys = true;
  params.batch_size = params.batch_size_eval = 12;
  return params;
}

class NearestOf : public testing::TestWithParam<EmbeddingType> {};

TEST_P(NearestOf, IsTheSameOnEveryNumberOfDevicesAndLooksUpWhatIsThere) {
  std::vector<Neighbours> found;
  for (const int devices : {1, 2, 3}) {
    TableRun run(params_of(GetParam()), devices);
    const BufferBag rows = [] {
      BufferBag bag;
      bag.vec_size = 5;
      for (int i = 0; i < 60; ++i) {
        bag.keys.push_back(100 + i / 3);
        bag.slot_ids.push_back(i % 3);
        for (int c = 0; c < 5; ++c) bag.vectors.push_back(std::sin(0.7f * i + c) * (1 + i % 7));
      }
      return bag;
    }();
    run.table().load(rows);
    const BufferBag all = run.table().dump(false);
    std::vector<float> vectors(5 * (all.size() + 1), 7.0f);
    auto keys = all.keys;
    auto slots = all.slot_ids;
    keys.push_back(9999);
    if (!slots.empty()) slots.push_back(1);
    const auto there = run.table().lookup(keys, slots, vectors.data());
    EXPECT_EQ(std::count(there.begin(), there.end(), 1), static_cast<long>(all.size()));
    EXPECT_EQ(there.back(), 0);
    EXPECT_TRUE(std::equal(all.vectors.begin(), all.vectors.end(), vectors.begin()));
    EXPECT_EQ(vectors.back(), 7.0f);  // as it was
    const RowName own{all.keys[4], all.slot_ids.empty() ? 0 : all.slot_ids[4]};
    found.push_back(run.table().nearest({vectors.data() + 20, 5}, 7, Similarity::Cosine, own));
    EXPECT_EQ(found.back().keys.size(), 7u);
    EXPECT_TRUE(std::is_sorted(found.back().scores.rbegin(), found.back().scores.rend()));
  }
  for (const Neighbours& other : found) {
    EXPECT_EQ(other.keys, found[0].keys);
    EXPECT_EQ(other.slot_ids, found[0].slot_ids);
    EXPECT_EQ(other.scores, found[0].scores);
  }
}

TEST_P(NearestOf, SaysWhatCanNotBeCompared) {
  TableRun run(params_of(GetParam()), 1);
  const std::vector<float> four(4), five(5);
  EXPECT_THROW(run.table().nearest(four, 1, Similarity::Dot, {}), InvalidArgument);
  EXPECT_THROW(run.table().nearest(five, 0, Similarity::Dot, {}), InvalidArgument);
  EXPECT_TRUE(run.table().nearest(five, 3, Similarity::Dot, {}).keys.empty());
  EXPECT_THROW(similarity_named("euclid"), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Types, NearestOf,
                         testing::Values(EmbeddingType::DistributedSlotSparseEmbeddingHash,
                                         EmbeddingType::LocalizedSlotSparseEmbeddingHash));

}  // namespace
}  // namespace hugectr::test
