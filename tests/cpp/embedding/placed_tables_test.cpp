// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "core/cpp/base/error.hpp"
#include "tests/cpp/embedding/reference_table.hpp"

/// Every placement against the formulas in double, which know no devices, on 1 to 8 of them.
namespace hugectr::test {
namespace {

constexpr std::size_t kBatch = 24, kBatchSlots = 3, kRounds = 6;
constexpr std::uint64_t kSeedOfRows = 11;

using Setting = std::tuple<PlacementKind, ExchangeType, Combiner, EmbeddingType, Optimizer>;

/// Of the keys that batches have, and one that is in none.
const std::vector<std::int64_t> kFrequent{5, 6, 8, 11, 30, 31, 62, 77777};
constexpr std::size_t kFrequentFound = 7;

constexpr auto kDistributed = EmbeddingType::DistributedSlotSparseEmbeddingHash;
constexpr auto kLocalized = EmbeddingType::LocalizedSlotSparseEmbeddingHash;

SparseEmbeddingHashParams placed(const Setting& setting) {
  SparseEmbeddingHashParams p;
  p.name = "table";
  p.table_id = 3;
  std::tie(p.placement, p.exchange, p.combiner, p.type, p.opt_params.optimizer) = setting;
  p.opt_params.update_type = Update::Local;
  if (p.placement == PlacementKind::Hybrid) p.frequent = kFrequent;
  p.slot_num = kBatchSlots;
  p.embedding_vec_size = 16;
  p.batch_size = p.batch_size_eval = kBatch;
  return p;
}

std::string setting_name(const ::testing::TestParamInfo<Setting>& info) {
  const auto p = placed(info.param);
  const char* const exchanges[] = {"Auto", "Pooled", "Unique"};
  return std::string(make_placement(*p.placement, 1, 1, {{0, 1}, 4})->name()) +
         exchanges[static_cast<int>(p.exchange)] + (p.combiner == Combiner::Sum ? "Sum" : "Mean") +
         (p.type == kDistributed ? "Key" : "SlotAndKey") +
         std::to_string(static_cast<int>(p.opt_params.optimizer));
}

/// Few keys, so that distinct rows are few, and in every second round many.
HostBatch keys_of(std::size_t round) {
  return random_batch(kBatch, kBatchSlots, 3, 5, round % 2 ? 60 : 9, 300 + round);
}

/// The batch with the keys of some buckets only.
template <class Keep>
HostBatch kept_buckets(const HostBatch& batch, const Keep& keep) {
  HostBatch kept;
  kept.row_offsets.push_back(0);
  for (std::size_t bucket = 0; bucket + 1 < batch.row_offsets.size(); ++bucket) {
    for (auto i = batch.row_offsets[bucket]; keep(bucket) && i < batch.row_offsets[bucket + 1];
         ++i) {
      kept.keys.push_back(batch.keys[i]);
    }
    kept.row_offsets.push_back(static_cast<std::uint32_t>(kept.keys.size()));
  }
  return kept;
}

/// Rows that all devices have, of a replicated table or a hybrid's frequent ones.
void expect_same_bits(TableRun& run, std::size_t devices) {
  const bool hybrid = run.table().frequent_placement() != nullptr;
  const BufferBag first = run.table().dump(true);
  for (std::size_t id = 0; id < devices; ++id) {
    const TableRows rows = hybrid ? run.table().frequent_part(id).rows() : run.table().rows(id);
    ASSERT_EQ(rows.keys.size(), hybrid ? kFrequentFound : first.size());
    for (std::size_t i = 0; i < rows.keys.size(); ++i) {
      const std::int64_t key = rows.keys.ptr<std::uint32_t>()[i];
      const std::uint64_t slot = rows.slots.empty() ? 0 : rows.slots.ptr<std::uint32_t>()[i];
      std::size_t at = 0;
      while (first.keys[at] != key || (!first.slot_ids.empty() && first.slot_ids[at] != slot)) {
        ASSERT_LT(++at, first.size());
      }
      const std::size_t d = first.vec_size;
      EXPECT_TRUE(std::equal(rows.vectors.row<float>(i), rows.vectors.row<float>(i) + d,
                             first.vectors.begin() + static_cast<std::ptrdiff_t>(at * d)))
          << "device " << id << ", key " << key;
    }
  }
}

void expect_formulas_of(const SparseEmbeddingHashParams& p, std::size_t devices) {
  SCOPED_TRACE(concat(devices, " devices"));
  TableRun run(p, devices, kSeedOfRows);
  ReferenceTable reference(p, kSeedOfRows);
  for (std::size_t round = 1; round <= kRounds; ++round) {
    const HostBatch batch = keys_of(round);
    const auto gradient = random_gradient(kBatch * kBatchSlots * p.embedding_vec_size, 400 + round);
    reference.insert(batch);
    const auto output = run.train(batch, gradient, 0.02f, static_cast<std::int64_t>(round), 0.5f);
    ASSERT_LE(relative_distance(output, reference.forward(batch)), 1e-5) << "round " << round;
    reference.update(batch, gradient, 0.02f, static_cast<std::int64_t>(round), 0.5);
  }
  const HostBatch unknown = random_batch(kBatch, kBatchSlots, 4, 30, 90, 78);
  EXPECT_LE(relative_distance(run.evaluate(unknown), reference.forward(unknown)), 1e-5);
  expect_rows(run.table().dump(true), reference);
  if (p.placement == PlacementKind::Replicated || run.table().frequent_placement()) {
    expect_same_bits(run, devices);
  }
}

class PlacedTables : public ::testing::TestWithParam<Setting> {};

TEST_P(PlacedTables, AgreeWithTheFormulasOnAnyDeviceCount) {
  for (const std::size_t devices : {1, 2, 3, 4, 8}) {
    SparseEmbeddingHashParams p = placed(GetParam());
    p.placement_device = p.placement == PlacementKind::Replicated ? 0 : devices / 3;
    expect_formulas_of(p, devices);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PlacedTables,
    ::testing::Combine(::testing::Values(PlacementKind::OneDevice, PlacementKind::Replicated,
                                         PlacementKind::ByColumn),
                       ::testing::Values(ExchangeType::Auto, ExchangeType::Pooled,
                                         ExchangeType::Unique),
                       ::testing::Values(Combiner::Sum, Combiner::Mean),
                       ::testing::Values(kDistributed, kLocalized),
                       ::testing::Values(Optimizer::SGD, Optimizer::Adam)),
    setting_name);

INSTANTIATE_TEST_SUITE_P(
    Hybrid, PlacedTables,
    ::testing::Combine(::testing::Values(PlacementKind::Hybrid),
                       ::testing::Values(ExchangeType::Auto, ExchangeType::Pooled,
                                         ExchangeType::Unique),
                       ::testing::Values(Combiner::Sum, Combiner::Mean),
                       ::testing::Values(kDistributed),
                       ::testing::Values(Optimizer::SGD, Optimizer::Adam, Optimizer::AdaGrad)),
    setting_name);

TEST(PlacedTables, GradientsOfReplicasTravelByRow) {
  SparseEmbeddingHashParams p = placed(
      {PlacementKind::Replicated, ExchangeType::Auto, Combiner::Sum, kDistributed, Optimizer::SGD});
  TableRun run(p, 4, kSeedOfRows);
  const std::vector<float> gradient(kBatch * kBatchSlots * p.embedding_vec_size, 0.5f);
  run.train(random_batch(kBatch, kBatchSlots, 3, 0, 9, 1), gradient, 0.1f, 1);
  EXPECT_EQ(run.table().stats().unique_plans, 1u) << "added up";
  run.train(random_batch(kBatch, kBatchSlots, 3, 0, 5000, 2), gradient, 0.1f, 2);
  EXPECT_EQ(run.table().stats().unique_plans, 2u) << "as they are";
  EXPECT_EQ(run.table().stats().rows, run.table().dump(false).size()) << "a row counts once";
}

/// Batches in which devices have unlike numbers of keys, or none, and some in which none has any.
TEST(PlacedTables, ReplicasOfLopsidedBatches) {
  for (const std::size_t devices : {2, 3, 8}) {
    for (const PlacementKind kind : {PlacementKind::Replicated, PlacementKind::Hybrid}) {
      for (const Combiner combiner : {Combiner::Sum, Combiner::Mean}) {
        SCOPED_TRACE(concat(devices, " devices"));
        SparseEmbeddingHashParams p =
            placed({kind, ExchangeType::Auto, combiner, kDistributed, Optimizer::AdaGrad});
        TableRun run(p, devices, kSeedOfRows);
        ReferenceTable reference(p, kSeedOfRows);
        for (std::size_t round = 1; round <= 12; ++round) {
          const HostBatch full =
              random_batch(kBatch, kBatchSlots, 3, 5, round % 3 ? 60 : 9, 500 + round);
          const HostBatch batch = kept_buckets(full, [&](std::size_t bucket) {
            const std::size_t sample = bucket / kBatchSlots;
            if (round % 4 == 0) return false;
            return round % 4 == 1 ? sample < 3 : round % 4 == 2 ? sample > 17 : sample % 7 > 3;
          });
          const auto gradient =
              random_gradient(kBatch * kBatchSlots * p.embedding_vec_size, 600 + round);
          const auto step = static_cast<std::int64_t>(round);
          reference.insert(batch);
          const auto output = run.train(batch, gradient, 0.02f, step, 0.5f);
          ASSERT_LE(relative_distance(output, reference.forward(batch)), 1e-5) << "round " << round;
          reference.update(batch, gradient, 0.02f, step, 0.5);
        }
        expect_rows(run.table().dump(true), reference);
      }
    }
  }
}

class MovedTables : public ::testing::TestWithParam<EmbeddingType> {};
INSTANTIATE_TEST_SUITE_P(Types, MovedTables, ::testing::Values(kDistributed, kLocalized));

TEST_P(MovedTables, RowsMoveBetweenPlacements) {
  // Tables with slots can be placed by slot, the others as hybrids.
  const EmbeddingType type = GetParam();
  const auto kinds = {type == kLocalized ? PlacementKind::BySlot : PlacementKind::Hybrid,
                      PlacementKind::ByKey, PlacementKind::OneDevice, PlacementKind::Replicated,
                      PlacementKind::ByColumn};
  std::size_t devices = 1;
  for (const PlacementKind from : kinds) {
    SparseEmbeddingHashParams p =
        placed({from, ExchangeType::Auto, Combiner::Sum, type, Optimizer::Adam});
    TableRun source(p, 4, kSeedOfRows);
    const auto gradient = random_gradient(kBatch * kBatchSlots * p.embedding_vec_size, 5);
    source.train(keys_of(1), gradient, 0.1f, 1);
    const BufferBag saved = source.table().dump(true);
    for (const PlacementKind to : kinds) {
      SCOPED_TRACE(concat(static_cast<int>(from), " to ", static_cast<int>(to)));
      p.placement = to;
      p.frequent = kFrequent;
      TableRun target(p, 1 + devices++ % 4, 1);
      target.train(keys_of(2), gradient, 0.1f, 1);  // rows that are overwritten, and others
      target.table().reset();
      target.table().load(saved);
      const BufferBag loaded = target.table().dump(true);
      EXPECT_EQ(loaded.keys, saved.keys);
      EXPECT_EQ(loaded.slot_ids, saved.slot_ids);
      EXPECT_EQ(loaded.vectors, saved.vectors);
      EXPECT_EQ(loaded.states, saved.states);
      std::vector<float> vectors(saved.vectors.size());
      const auto there = target.table().lookup(saved.keys, saved.slot_ids, vectors.data());
      EXPECT_EQ(vectors, saved.vectors);
      EXPECT_EQ(std::ranges::count(there, 1), static_cast<std::ptrdiff_t>(saved.size()));
      const auto first = std::min<std::size_t>(1, saved.slot_ids.size());
      EXPECT_EQ(target.table().erase({saved.keys[0]},
                                     {saved.slot_ids.begin(),
                                      saved.slot_ids.begin() + static_cast<std::ptrdiff_t>(first)}),
                1u);
      EXPECT_EQ(target.table().dump(false).size(), saved.size() - 1);
    }
  }
}

TEST(PlacedTables, OverlappedStepsAreThoseWithPauses) {
  for (const PlacementKind kind : {PlacementKind::OneDevice, PlacementKind::Replicated,
                                   PlacementKind::ByColumn, PlacementKind::Hybrid}) {
    const SparseEmbeddingHashParams p =
        placed({kind, ExchangeType::Auto, Combiner::Mean, kDistributed, Optimizer::Adam});
    std::vector<HostBatch> batches;
    std::vector<std::vector<float>> gradients;
    for (std::size_t i = 0; i < 8; ++i) {
      batches.push_back(keys_of(i));
      gradients.push_back(random_gradient(kBatch * kBatchSlots * p.embedding_vec_size, 500 + i));
    }
    TableRun slow(p, 4, kSeedOfRows), fast(p, 4, kSeedOfRows);
    std::vector<float> outputs;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const auto output =
          slow.train(batches[i], gradients[i], 0.01f, static_cast<std::int64_t>(i + 1));
      outputs.insert(outputs.end(), output.begin(), output.end());
    }
    const auto overlapped =
        fast.train_overlapped(batches, gradients, 0.01f, std::chrono::microseconds(300));
    EXPECT_EQ(overlapped, outputs) << static_cast<int>(kind);
    EXPECT_EQ(fast.table().dump(true).vectors, slow.table().dump(true).vectors);
  }
}

TEST(PlacedTables, WhatCanNotBeIsRefused) {
  SparseEmbeddingHashParams p = placed({PlacementKind::ByColumn, ExchangeType::Auto, Combiner::Sum,
                                        kDistributed, Optimizer::RowWiseAdaGrad});
  EXPECT_THROW(TableRun(p, 2), InvalidArgument);
  EXPECT_NO_THROW(TableRun(p, 1));
  p.placement = PlacementKind::OneDevice;
  p.placement_device = 2;
  try {
    TableRun(p, 2);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("'table' is placed on device 2"), std::string::npos);
  }
}

}  // namespace
}  // namespace hugectr::test
