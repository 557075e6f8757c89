// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_tiers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "tests/cpp/embedding/table_run.hpp"

/// Tables whose rows lie in host memory, with places for some on the device, beside tables with all
/// rows there: to the bit.
namespace hugectr::test {
namespace {

constexpr std::size_t kSamples = 24, kSlots = 3, kDim = 6, kMostKeys = 3;
constexpr std::int64_t kKeys = 3000;
/// Distinct rows of a batch at most, on all devices.
constexpr std::size_t kBatchRows = kSamples * kSlots * kMostKeys;

struct Case {
  EmbeddingType type;
  Optimizer optimizer;
  Update update;
  std::size_t devices;
  ExchangeType exchange;
};

SparseEmbeddingHashParams params_of(const Case& c) {
  SparseEmbeddingHashParams p;
  p.name = "table";
  p.type = c.type;
  p.slot_num = kSlots;
  p.embedding_vec_size = kDim;
  p.i64_keys = true;
  p.exchange = c.exchange;
  p.opt_params.optimizer = c.optimizer;
  p.opt_params.update_type = c.update;
  p.batch_size = p.batch_size_eval = kSamples;
  return p;
}

TableMemory places(const SparseEmbeddingHashParams& p, std::size_t count) {
  const RowParts parts = parts_of_row(p.embedding_vec_size, p.vector_type, p.opt_params);
  return {.device = count * (parts.row_bytes() + 2 * sizeof(std::uint32_t)), .host = {}};
}

/// Keys of which few are frequent; new ones in every batch.
HostBatch batch_of(std::uint64_t seed) {
  HostBatch batch = random_batch(kSamples, kSlots, kMostKeys, 0, kKeys, seed);
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    if (i % 3 != 0) batch.keys[i] %= 50;
  }
  return batch;
}

std::vector<float> gradient_of(std::uint64_t seed) {
  return random_gradient(kSamples * kSlots * kDim, seed);
}

void expect_same(const BufferBag& a, const BufferBag& b) {
  EXPECT_EQ(a.keys, b.keys);
  EXPECT_EQ(a.slot_ids, b.slot_ids);
  EXPECT_EQ(a.vectors, b.vectors);
  EXPECT_EQ(a.states, b.states);
  EXPECT_EQ(a.last_step, b.last_step);
}

/// The most rows of two batches in a row on one device: with so many places each batch just fits.
std::size_t least_places(const Case& c, const std::vector<HostBatch>& batches) {
  const bool by_slot = c.type == EmbeddingType::LocalizedSlotSparseEmbeddingHash;
  std::size_t most = 0;
  for (std::size_t device = 0; device < c.devices; ++device) {
    std::vector<std::set<std::pair<std::size_t, std::int64_t>>> rows(batches.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const HostBatch& batch = batches[i];
      for (std::size_t b = 0; b + 1 < batch.row_offsets.size(); ++b) {
        for (std::uint32_t k = batch.row_offsets[b]; k < batch.row_offsets[b + 1]; ++k) {
          const auto key = batch.keys[k];
          const std::size_t owner = (by_slot ? b % kSlots : static_cast<std::size_t>(key));
          if (owner % c.devices == device) rows[i].insert({by_slot ? b % kSlots : 0, key});
        }
      }
      std::set<std::pair<std::size_t, std::int64_t>> two = rows[i];
      if (i > 0) two.insert(rows[i - 1].begin(), rows[i - 1].end());
      most = std::max(most, two.size());
    }
  }
  return most;
}

class RowTiers : public ::testing::TestWithParam<Case> {};

TEST_P(RowTiers, OverlappedStepsGiveTheSameBits) {
  SparseEmbeddingHashParams p = params_of(GetParam());
  std::vector<HostBatch> batches;
  std::vector<std::vector<float>> gradients;
  for (std::uint64_t step = 0; step < 40; ++step) {
    batches.push_back(batch_of(100 + step));
    gradients.push_back(gradient_of(200 + step));
  }
  TableRun all(p, GetParam().devices);
  p.memory = places(p, least_places(GetParam(), batches));
  TableRun few(p, GetParam().devices);
  const std::chrono::microseconds lag(300);
  EXPECT_EQ(all.train_overlapped(batches, gradients, 0.05f, lag),
            few.train_overlapped(batches, gradients, 0.05f, lag));
  expect_same(few.table().dump(true), all.table().dump(true));
  const TableStats stats = few.table().stats();
  EXPECT_GT(stats.tiers.bytes_fetched, 0);
  EXPECT_GT(stats.tiers.bytes_written_back, 0);
  EXPECT_EQ(all.table().stats().tiers.misses, 0);
}

TEST_P(RowTiers, EverythingThatLooksAtRowsSeesTheSame) {
  SparseEmbeddingHashParams p = params_of(GetParam());
  TableRun all(p, GetParam().devices);
  p.memory = places(p, 2 * kBatchRows);
  TableRun few(p, GetParam().devices);
  const bool slots = all.table().has_slots();
  for (std::int64_t step = 1; step <= 30; ++step) {
    const HostBatch batch = batch_of(300 + static_cast<std::uint64_t>(step));
    const std::vector<float> gradient = gradient_of(400 + static_cast<std::uint64_t>(step));
    for (TableRun* run : {&all, &few}) run->train(batch, gradient, 0.05f, step);
    if (step % 5 == 0) {
      const HostBatch other = batch_of(500 + static_cast<std::uint64_t>(step));
      EXPECT_EQ(few.evaluate(other), all.evaluate(other));
    }
    BufferBag rows = all.table().dump(true);
    if (step % 7 == 3) expect_same(few.table().dump(true), rows);
    if (step % 6 == 2) {
      std::vector<float> a(rows.size() * kDim), b = a;
      EXPECT_EQ(all.table().lookup(rows.keys, rows.slot_ids, a.data()),
                few.table().lookup(rows.keys, rows.slot_ids, b.data()));
      EXPECT_EQ(a, b);
      const std::vector<float> query(kDim, 0.25f);
      const Neighbours near = all.table().nearest(query, 5, Similarity::Cosine, std::nullopt);
      EXPECT_EQ(few.table().nearest(query, 5, Similarity::Cosine, std::nullopt).keys, near.keys);
    }
    if (step == 12) {  // rows with other values, and one that is new, without states
      BufferBag loaded;
      loaded.vec_size = kDim;
      loaded.keys.assign(rows.keys.begin(), rows.keys.begin() + 20);
      loaded.keys.push_back(kKeys + 5);
      if (slots) {
        loaded.slot_ids.assign(rows.slot_ids.begin(), rows.slot_ids.begin() + 20);
        loaded.slot_ids.push_back(1);
      }
      loaded.vectors = random_gradient(loaded.size() * kDim, 9);
      for (TableRun* run : {&all, &few}) run->table().load(loaded);
    }
    if (step == 16 || step == 22) {  // numbers that are used again
      std::vector<std::int64_t> keys;
      std::vector<std::uint64_t> slot_ids;
      for (std::size_t i = 0; i < rows.size(); i += 3) {
        keys.push_back(rows.keys[i]);
        if (slots) slot_ids.push_back(rows.slot_ids[i]);
      }
      for (TableRun* run : {&all, &few}) run->table().erase(keys, slot_ids);
    }
    if (step == 25) {
      for (TableRun* run : {&all, &few}) run->table().reset_optimizer();
    }
    if (step == 27) {
      for (TableRun* run : {&all, &few}) run->table().reset();
    }
  }
  expect_same(few.table().dump(true), all.table().dump(true));
}

constexpr auto kDistributed = EmbeddingType::DistributedSlotSparseEmbeddingHash;
constexpr auto kLocalized = EmbeddingType::LocalizedSlotSparseEmbeddingHash;

INSTANTIATE_TEST_SUITE_P(
    Everywhere, RowTiers,
    ::testing::Values(
        Case{kDistributed, Optimizer::SGD, Update::Local, 1, ExchangeType::Pooled},
        Case{kDistributed, Optimizer::Adam, Update::LazyGlobal, 1, ExchangeType::Pooled},
        Case{kDistributed, Optimizer::Adam, Update::Local, 2, ExchangeType::Unique},
        Case{kLocalized, Optimizer::AdaGrad, Update::Local, 3, ExchangeType::Unique},
        Case{kLocalized, Optimizer::Ftrl, Update::Local, 2, ExchangeType::Pooled},
        Case{kDistributed, Optimizer::AdaGrad, Update::Local, 4, ExchangeType::Auto}));

Case plain() { return {kDistributed, Optimizer::AdaGrad, Update::Local, 1, ExchangeType::Pooled}; }

/// first, first + 1, ..., as many in each bucket.
HostBatch distinct_keys(std::int64_t first, std::size_t of_bucket = 1) {
  HostBatch batch{{}, {0}};
  for (std::size_t b = 0; b < kSamples * kSlots; ++b) {
    for (std::size_t k = 0; k < of_bucket; ++k) batch.keys.push_back(first++);
    batch.row_offsets.push_back(static_cast<std::uint32_t>(batch.keys.size()));
  }
  return batch;
}

TEST(RowTiersErrors, TooFewPlacesAreSaidBeforeTheBatchTrainsAndTrainingGoesOn) {
  constexpr std::size_t kRows = kSamples * kSlots;
  SparseEmbeddingHashParams p = params_of(plain());
  p.memory = places(p, kRows + kRows / 2);
  TableRun run(p, 1);
  run.plan(distinct_keys(0), PlanSlot::Train0);
  try {
    run.plan(distinct_keys(1000), PlanSlot::Train1);
    FAIL() << "places for one and a half batches held two";
  } catch (const OutOfMemory& e) {
    const std::string message = e.what();
    for (const std::string& part :
         {std::string("embedding 'table'"), concat("needs ", 2 * kRows, " rows"),
          concat("places for ", kRows + kRows / 2),
          concat("at least ", *places(p, 2 * kRows).device, " bytes")}) {
      EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
    }
  }
  run.forward(PlanSlot::Train0);
  run.update(PlanSlot::Train0, gradient_of(1), 0.1f, 1);
  EXPECT_EQ(run.table().dump(false).keys.size(), kRows);
  // Half of the rows are those of the batch before: the same places.
  run.plan(distinct_keys(kRows / 2), PlanSlot::Train1);
  run.forward(PlanSlot::Train1);
  run.update(PlanSlot::Train1, gradient_of(2), 0.1f, 2);
  EXPECT_EQ(run.table().dump(false).keys.size(), kRows + kRows / 2);
}

TEST(RowTiersErrors, ASmallestBudgetThatWasNamedIsEnough) {
  constexpr std::size_t kRows = kSamples * kSlots;
  SparseEmbeddingHashParams p = params_of(plain());
  p.memory = places(p, 2 * kRows);
  TableRun run(p, 1);
  run.plan(distinct_keys(0), PlanSlot::Train0);
  run.plan(distinct_keys(1000), PlanSlot::Train1);
}

TEST(RowTiersErrors, EvaluationsAndDroppedPlansGiveTheirPlacesBack) {
  constexpr std::size_t kRows = kSamples * kSlots;
  SparseEmbeddingHashParams p = params_of(plain());
  p.memory = places(p, 2 * kRows);
  TableRun run(p, 1);
  auto train = [&, step = std::int64_t{0}](std::int64_t first) mutable {
    ++step;
    run.train(distinct_keys(first), gradient_of(static_cast<std::uint64_t>(step)), 0.1f, step);
  };
  train(0);
  train(kRows);
  run.evaluate(distinct_keys(0));
  train(2 * kRows);
  train(3 * kRows);  // with the rows of the batch before: all places
  run.plan(distinct_keys(4 * kRows), PlanSlot::Train0);
  run.group().drop_plan(PlanSlot::Train0);
  EXPECT_EQ(run.evaluate(distinct_keys(0, 2)).size(), kRows * kDim);  // all places too
}

TEST(RowTiersErrors, DroppedPlansLeaveNothing) {
  SparseEmbeddingHashParams p = params_of(plain());
  TableRun all(p, 1);
  p.memory = places(p, 2 * kBatchRows);
  TableRun few(p, 1);
  for (std::int64_t step = 1; step <= 20; ++step) {
    const auto seed = static_cast<std::uint64_t>(step);
    const PlanSlot next = step % 2 ? PlanSlot::Train1 : PlanSlot::Train0;
    for (TableRun* run : {&all, &few}) {
      run->train(batch_of(600 + seed), gradient_of(700 + seed), 0.1f, step);
      run->plan(batch_of(800 + seed), next);
      if (step % 3 == 0) {  // an error in the middle of its step
        run->forward(next);
        run->resources().synchronize();
      }
      run->group().drop_plan(next);
      if (step % 4 == 0) run->evaluate(batch_of(900 + seed));
    }
  }
  expect_same(few.table().dump(true), all.table().dump(true));
}

TEST(RowTiersErrors, WhatCanNotBeIsRefused) {
  SparseEmbeddingHashParams p = params_of(plain());
  p.memory.device = 7;
  EXPECT_THROW(TableRun(p, 1), InvalidArgument);  // no row fits
  p = params_of({kDistributed, Optimizer::Adam, Update::Global, 1, ExchangeType::Pooled});
  p.memory = places(p, 1000);
  EXPECT_THROW(TableRun(p, 1), InvalidArgument);  // every row moves in every step
  p = params_of(plain());
  p.memory = places(p, 2 * kBatchRows);
  TableRun run(p, 1);
  run.train(batch_of(1), gradient_of(1), 0.1f, 1);
  EXPECT_THROW(run.table().rows(0), InvalidArgument);  // no view: rows move
}

TEST(RowTiersErrors, AHostBudgetIsABoundOfRows) {
  SparseEmbeddingHashParams p = params_of(plain());
  p.memory = places(p, 2 * kSamples * kSlots);
  const RowParts parts = parts_of_row(kDim, p.vector_type, p.opt_params);
  p.memory.host = 100 * parts.row_bytes();
  TableRun run(p, 1);
  run.train(distinct_keys(0), gradient_of(1), 0.1f, 1);
  try {
    run.plan(distinct_keys(1000), PlanSlot::Train1);
    FAIL();
  } catch (const OutOfMemory& e) {
    EXPECT_NE(std::string(e.what()).find("Memory(host=)"), std::string::npos) << e.what();
  }
}

TEST(RowTiersErrors, WithoutPlacesRowsAreReachedWhereTheyLie) {
  SparseEmbeddingHashParams p = params_of(plain());
  TableRun all(p, 1);
  p.memory.device = 0;
  TableRun none(p, 1);
  for (std::int64_t step = 1; step <= 10; ++step) {
    const auto seed = static_cast<std::uint64_t>(step);
    for (TableRun* run : {&all, &none}) {
      run->train(batch_of(seed), gradient_of(seed), 0.1f, step);
    }
  }
  expect_same(none.table().dump(true), all.table().dump(true));
  EXPECT_GT(none.table().stats().host_bytes, 0);
}

}  // namespace
}  // namespace hugectr::test
