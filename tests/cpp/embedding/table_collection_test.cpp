// SPDX-License-Identifier: Apache-2.0
#include "tests/cpp/embedding/collection_tables.hpp"

/// A collection against the LookupGroup that a Session trains by, and what it promises of batches
/// that are alive together, dropped, or never trained.
namespace hugectr::test {
namespace {

/// Whether five steps leave what a Session's would.
void expect_trained_as_by_a_group(const SparseEmbeddingHashParams& params) {
  Tables tables({params});
  TableRun run(params, 1, 7);
  for (std::uint64_t step = 1; step <= 5; ++step) {
    auto batch = batches(1, kBuckets, step);
    if (step == 4) batch[0] = {{}, std::vector<std::uint32_t>(kBuckets + 1)};  // no keys at all
    const auto gradient = gradients(1, kBuckets, step);
    const auto token = tables.plan(batch);
    const auto outputs = tables.forward(token, kBuckets);
    tables.accumulate(token, gradient);
    tables.collection.release(token);
    tables.step();
    EXPECT_EQ(outputs[0], run.train(batch[0], gradient[0], 0.1f, static_cast<int>(step)));
  }
  expect_same_rows(tables.rows(), {run.table().dump(true)});
  auto batch = batches(1, kBuckets, 77, 20);
  EXPECT_EQ(tables.look_up(batch, kBuckets)[0], run.evaluate(batch[0]));
}

TEST(TableCollection, TrainsAsALookupGroupDoesToTheBit) {
  for (const Combiner combiner : {Combiner::Sum, Combiner::Mean}) {
    for (const Update update : {Update::Local, Update::Global, Update::LazyGlobal}) {
      SparseEmbeddingHashParams params = table(0, combiner);
      params.opt_params.update_type = update;
      expect_trained_as_by_a_group(params);
    }
  }
}

TEST(TableCollection, OverTiersTrainsToTheBit) {
  std::vector<SparseEmbeddingHashParams> params;
  for (std::size_t t = 0; t < 4; ++t) params.push_back(table(t, Combiner::Sum));
  Tables all(params);
  for (const std::size_t t : {0, 2, 3}) {  // one stays on the device
    const RowParts parts = parts_of_row(kDim, params[t].vector_type, params[t].opt_params);
    params[t].memory = {.device = 250 * (parts.row_bytes() + 2 * sizeof(std::uint32_t)),
                        .host = {}};
  }
  Tables tiered(params);
  for (std::uint64_t step = 0; step < 25; ++step) {
    std::vector<std::vector<std::vector<float>>> outputs;  // of either
    for (Tables* tables : {&all, &tiered}) {
      std::vector<std::vector<float>>& found = outputs.emplace_back();
      for (std::uint64_t part = 0; part < 1 + step % 2; ++part) {  // steps of two batches
        const std::uint64_t seed = 2 * step + part;
        auto batch = batches(4, kBuckets, seed);
        for (HostBatch& one : batch) {
          for (std::int64_t& key : one.keys)
            key += static_cast<std::int64_t>(seed * seed % 17 * 30);
        }
        const auto token = tables->plan(batch);
        for (auto& vectors : tables->forward(token, kBuckets)) found.push_back(vectors);
        tables->accumulate(token, gradients(4, kBuckets, seed));
        tables->collection.release(token);
      }
      tables->step();
    }
    EXPECT_EQ(outputs[0], outputs[1]) << step;
  }
  expect_same_rows(tiered.rows(), all.rows());
  for (const std::size_t t : {0, 2, 3}) {
    EXPECT_GT(tiered.collection.access(t).stats().tiers.bytes_fetched, 0u) << t;
    EXPECT_GT(tiered.collection.access(t).stats().tiers.bytes_written_back, 0u) << t;
  }
}

TEST(TableCollection, UpdatesARowOnceForAllBatchesOfAStep) {
  const std::vector<SparseEmbeddingHashParams> params{table(0, Combiner::Sum, Optimizer::SGD),
                                                      table(1, Combiner::Sum, Optimizer::SGD)};
  Tables one(params), several(params);
  auto first = batches(2, 10, 1), second = batches(2, 14, 2);
  const auto of_first = gradients(2, 10, 1), of_second = gradients(2, 14, 2);
  std::vector<HostBatch> both = first;
  std::vector<std::vector<float>> of_both = of_first;
  for (std::size_t t = 0; t < 2; ++t) {
    const auto before = static_cast<std::uint32_t>(both[t].keys.size());
    both[t].keys.insert(both[t].keys.end(), second[t].keys.begin(), second[t].keys.end());
    for (std::size_t i = 1; i < second[t].row_offsets.size(); ++i) {
      both[t].row_offsets.push_back(second[t].row_offsets[i] + before);
    }
    of_both[t].insert(of_both[t].end(), of_second[t].begin(), of_second[t].end());
  }
  const auto whole = one.plan(both);
  one.forward(whole, 24);
  one.accumulate(whole, of_both);
  one.step();
  const auto a = several.plan(first), b = several.plan(second);
  several.forward(b, 14);
  several.forward(a, 10);
  several.accumulate(b, of_second);
  several.accumulate(a, of_first);
  several.collection.release(b);
  several.step();
  const auto wanted = one.rows(), found = several.rows();
  for (std::size_t t = 0; t < 2; ++t) {
    EXPECT_EQ(found[t].keys, wanted[t].keys);
    EXPECT_LT(relative_distance(found[t].vectors, wanted[t].vectors), 1e-6);
  }
  EXPECT_EQ(several.collection.steps(), 1);
}

TEST(TableCollection, ABatchWithoutAStepLeavesNoTrace) {
  Tables tables({table(0, Combiner::Sum)});
  auto known = batches(1, kBuckets, 1);
  auto token = tables.plan(known);
  tables.accumulate(token, gradients(1, kBuckets, 1));
  tables.collection.release(token);
  tables.step();
  const auto before = tables.rows();
  const std::size_t rows = tables.collection.table(0).part(0).size();

  auto other = batches(1, kBuckets, 2, 30), next = batches(1, kBuckets, 3, 50);
  token = tables.plan(other);
  const auto later = tables.plan(next);
  tables.accumulate(token, gradients(1, kBuckets, 2));
  expect_same_rows(tables.rows(), before);  // nobody sees what has not trained
  tables.collection.clear_gradients();
  tables.collection.release(token);
  tables.collection.release(later);
  expect_same_rows(tables.rows(), before);
  EXPECT_EQ(tables.collection.table(0).part(0).size(), rows);
  EXPECT_FALSE(tables.collection.table(0).part(0).is_pinned());
  auto unknown = batches(1, kBuckets, 4, 1000);
  EXPECT_EQ(tables.look_up(unknown, kBuckets)[0], std::vector<float>(kBuckets * kDim, 0.0f));
  EXPECT_EQ(tables.collection.table(0).part(0).size(), rows);
}

TEST(TableCollection, AnUnusedBatchLeavesNoTraceBehindALaterOneThatTrained) {
  Tables tables({table(0, Combiner::Sum)}), without({table(0, Combiner::Sum)});
  auto unused = batches(1, kBuckets, 1), used = batches(1, kBuckets, 2, 20);
  const auto first = tables.plan(unused);
  for (Tables* each : {&tables, &without}) {
    const auto token = each->plan(used);
    each->accumulate(token, gradients(1, kBuckets, 3));
    each->collection.release(token);
    each->step();
  }
  // The first batch lives and its rows may be used, but nobody sees them.
  EXPECT_GT(tables.collection.table(0).part(0).size(), without.rows()[0].size());
  expect_same_rows(tables.rows(), without.rows());
  EXPECT_EQ(tables.look_up(unused, kBuckets), without.look_up(unused, kBuckets));
  EXPECT_EQ(tables.collection.table(0).stats().rows, without.collection.table(0).stats().rows);
  tables.collection.release(first);
  expect_same_rows(tables.rows(), without.rows());
  for (Tables* each : {&tables, &without}) {
    auto again = batches(1, kBuckets, 1);
    const auto unused_too = each->plan(again);  // into the numbers that are free now
    const auto token = each->plan(used);
    each->accumulate(token, gradients(1, kBuckets, 4));
    each->collection.release(token);
    each->step();
    each->collection.release(unused_too);
  }
  expect_same_rows(tables.rows(), without.rows());
}

TEST(TableCollection, RowsOfABatchThatTrainsBehindALaterOneAreSeenFromThenOn) {
  Tables tables({table(0, Combiner::Sum)}), in_turn({table(0, Combiner::Sum)});
  auto late = batches(1, kBuckets, 1), early = batches(1, kBuckets, 2, 20);
  const auto train = [](Tables& each, TableCollection::Token token, std::uint64_t seed) {
    each.accumulate(token, gradients(1, kBuckets, seed));
    each.collection.release(token);
    each.step();
  };
  for (int round = 0; round < 3; ++round) {
    const auto first = tables.plan(late);
    train(tables, tables.plan(early), 3);
    train(in_turn, in_turn.plan(early), 3);
    expect_same_rows(tables.rows(), in_turn.rows());
    train(tables, first, 4);
    train(in_turn, in_turn.plan(late), 4);
    expect_same_rows(tables.rows(), in_turn.rows());
    EXPECT_EQ(tables.look_up(late, kBuckets), in_turn.look_up(late, kBuckets));
    EXPECT_FALSE(tables.collection.table(0).part(0).has_gaps());
    late = batches(1, kBuckets, 10 + round, 100 * (round + 1));
    early = batches(1, kBuckets, 20 + round, 100 * (round + 1) + 30);
  }
}

TEST(TableCollection, ManyBatchesWithoutAStepLeaveNoTrace) {
  Tables tables({table(0, Combiner::Sum)}), without({table(0, Combiner::Sum)});
  auto stray = batches(1, kBuckets, 1), used = batches(1, kBuckets, 2, 20);
  const auto first = tables.plan(stray);
  for (Tables* each : {&tables, &without}) {
    const auto token = each->plan(used);
    each->accumulate(token, gradients(1, kBuckets, 3));
    each->collection.release(token);
    each->step();
  }
  for (int i = 0; i < 100; ++i) {
    auto batch = batches(1, kBuckets, 10, 50 * i);
    tables.collection.release(tables.plan(batch));
  }
  EXPECT_LT(tables.collection.table(0).part(0).size(), 40u * 80);  // they do not pile up
  tables.collection.release(first);
  expect_same_rows(tables.rows(), without.rows());
}

TEST(TableCollection, APlanMayAskForWhatAnEndedOneInserted) {
  Tables tables({table(0, Combiner::Sum)}), without({table(0, Combiner::Sum)});
  auto batch = batches(1, kBuckets, 1);
  tables.collection.release(tables.plan(batch));  // as activation checkpointing does
  for (Tables* each : {&tables, &without}) {
    const auto token = each->plan(batch);
    each->accumulate(token, gradients(1, kBuckets, 3));
    each->collection.release(token);
    each->step();
  }
  expect_same_rows(tables.rows(), without.rows());
}

TEST(TableCollection, NewKeysOfATableWithoutGradientsGetRowsToo) {
  for (const bool at_once : {false, true}) {
    for (const bool frozen : {false, true}) {
      SCOPED_TRACE(concat(at_once ? "at once" : "in two parts", frozen ? ", frozen" : ""));
      const std::vector<SparseEmbeddingHashParams> params{table(0, Combiner::Sum),
                                                          table(1, Combiner::Sum)};
      Tables tables(params), without(params);
      // The batch is planned twice, as activation checkpointing does it; one that nobody trains is
      // alive all the while.
      auto batch = batches(2, kBuckets, 1), stray = batches(2, kBuckets, 2, 20);
      const auto first = tables.plan(stray);
      for (Tables* each : {&tables, &without}) {
        if (frozen) each->collection.table(0).freeze();
        if (each == &tables) tables.collection.release(tables.plan(batch));
        const auto token = each->plan(batch);
        auto given = gradients(2, kBuckets, 3);
        if (!frozen && !at_once) given[0].clear();
        at_once ? each->update(token, given, {0.1f, 0.1f}) : each->accumulate(token, given);
        each->collection.release(token);
        if (!at_once) each->step();
      }
      tables.collection.release(first);
      expect_same_rows(tables.rows(), without.rows());
      EXPECT_GT(tables.rows()[0].keys.size(), 0u);
    }
  }
}

TEST(TableCollection, ABatchThatCannotBePlannedChangesNothing) {
  SparseEmbeddingHashParams params = table(0, Combiner::Sum);
  params.max_vocabulary_size_per_gpu = 50;
  Tables tables({params});
  auto batch = batches(1, kBuckets, 1);
  auto token = tables.plan(batch);
  tables.accumulate(token, gradients(1, kBuckets, 1));
  tables.collection.release(token);
  tables.step();
  const auto before = tables.rows();
  std::vector<HostBatch> large{random_batch(200, 1, 4, 1000, 400, 5)};
  EXPECT_THROW(tables.plan(large), OutOfMemory);
  expect_same_rows(tables.rows(), before);
  token = tables.plan(batch);
  EXPECT_THROW(tables.accumulate(token, gradients(1, kBuckets + 1, 1)), InvalidArgument);
  tables.accumulate(token, gradients(1, kBuckets, 1));
  tables.step();
  EXPECT_EQ(tables.rows()[0].keys, before[0].keys);
  EXPECT_THROW(tables.forward(token + 1, kBuckets), InvalidArgument);
}

TEST(TableCollection, SquaresAreThoseOfTheSumOverBatches) {
  Tables tables({table(0, Combiner::Sum)});
  std::vector<HostBatch> first{{{1, 2, 1}, {0, 1, 2, 3}}}, second{{{2}, {0, 1}}};
  const auto a = tables.plan(first), b = tables.plan(second);
  tables.accumulate(a, {{1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0}});
  tables.accumulate(b, {{5, 0, 0, 0, 0}});
  double squares = -1.0;
  tables.collection.squares(make_ref(&squares, {1}, tables.collection.device()), 0);
  EXPECT_DOUBLE_EQ(squares, 4.0 * 4.0 + 7.0 * 7.0);
}

TEST(TableCollection, AFrozenTableKeepsItsRows) {
  Tables tables({table(0, Combiner::Sum), table(1, Combiner::Sum)});
  auto batch = batches(2, kBuckets, 1);
  for (int step = 0; step < 2; ++step) {
    const auto token = tables.plan(batch);
    tables.accumulate(token, gradients(2, kBuckets, 1));
    tables.collection.release(token);
    const auto before = tables.rows();
    tables.step();
    const auto after = tables.rows();
    EXPECT_NE(after[1].vectors, before[1].vectors);
    if (step == 1) {
      EXPECT_EQ(after[0].vectors, before[0].vectors);
    }
    tables.collection.table(0).freeze();
  }
}

}  // namespace
}  // namespace hugectr::test
