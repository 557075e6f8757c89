// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <limits>

#include "tests/cpp/embedding/collection_tables.hpp"

/// A collection whose forward goes on without its keys, and whose updates are made at once, against
/// one that does one thing after the other.
namespace hugectr::test {
namespace {

constexpr std::int64_t kReserved = std::numeric_limits<std::int64_t>::max();

/// Tables whose forward waits for keys, "1", or not, "0".
struct TablesThat : Tables {
  TablesThat(const char* wait, const std::vector<SparseEmbeddingHashParams>& params,
             bool submitted_beside = false)
      : Tables((setenv("HUGECTR_WAIT_FOR_KEYS", wait, 1), params)) {
    unsetenv("HUGECTR_WAIT_FOR_KEYS");
    beside = submitted_beside;
  }
};

/// Two batches alive at once, of which the later one is dropped or trains first.
std::vector<std::vector<float>> some_steps(Tables& tables, std::uint64_t step) {
  const std::size_t count = tables.collection.size();
  auto first = batches(count, kBuckets, step), second = batches(count, 7, 500 + step, 30 * step);
  const auto a = tables.begin(first);
  std::vector<std::vector<float>> outputs = tables.forward(a, kBuckets);
  const auto b = tables.begin(second);
  for (const auto& one : tables.forward(b, 7)) outputs.push_back(one);
  if (step % 3 != 0) tables.accumulate(b, gradients(count, 7, step));
  if (step % 3 == 1) tables.step();
  tables.accumulate(a, gradients(count, kBuckets, step));
  tables.collection.release(b);
  tables.collection.release(a);
  step % 5 == 4 ? tables.collection.clear_gradients() : tables.step();
  return outputs;
}

TEST(TableCollectionSteps, ForwardThatDoesNotWaitGivesWhatOneThatWaitsDoes) {
  const std::vector<SparseEmbeddingHashParams> params{table(0, Combiner::Sum),
                                                      table(1, Combiner::Mean)};
  TablesThat waits("1", params), goes_on("0", params);
  TablesThat waits_beside("1", params, true), goes_on_beside("0", params, true);
  for (std::uint64_t step = 1; step <= 20; ++step) {
    const auto wanted = some_steps(waits, step);
    for (TablesThat* const others : {&goes_on, &waits_beside, &goes_on_beside}) {
      EXPECT_EQ(some_steps(*others, step), wanted);
      expect_same_rows(others->rows(), waits.rows());
    }
  }
}

TEST(TableCollectionSteps, ALookupBesideForwardOfAnotherBatchIsTheOneInTurn) {
  for (const Update update : {Update::Local, Update::Global}) {
    std::vector<SparseEmbeddingHashParams> params{table(0, Combiner::Sum),
                                                  table(1, Combiner::Mean)};
    for (auto& one : params) one.opt_params.update_type = update;
    TablesThat in_turn("1", params), beside("0", params, true);
    // Batches one ahead, of which each has keys that the ones before have not.
    const auto steps = [](Tables& tables, bool ahead) {
      std::vector<std::vector<float>> found;
      std::vector<std::vector<HostBatch>> all;
      for (std::uint64_t step = 0; step < 12; ++step) {
        all.push_back(batches(2, kBuckets, step, static_cast<std::int64_t>(step % 5 * 40)));
      }
      TableCollection::Token next = ahead ? tables.begin(all[0]) : 0;
      for (std::uint64_t step = 0; step < 12; ++step) {
        const auto now = ahead ? next : tables.plan(all[step]);
        if (ahead && step < 11) next = tables.begin(all[step + 1]);
        for (const auto& one : tables.forward(now, kBuckets)) found.push_back(one);
        tables.accumulate(now, gradients(2, kBuckets, step));
        tables.collection.release(now);
        tables.step();
      }
      return found;
    };
    EXPECT_EQ(steps(beside, true), steps(in_turn, false));
    expect_same_rows(beside.rows(), in_turn.rows());
  }
}

TEST(TableCollectionSteps, WhatIsWrongWithABatchThatAThreadLooksUpIsSaidByItsCalls) {
  TablesThat tables("0", {table(0, Combiner::Sum)}, true);
  some_steps(tables, 1);
  const auto before = tables.rows();
  std::vector<HostBatch> too_many(2);  // keys of tables that there are not
  for (HostBatch& one : too_many) one = {{1, 2}, {0, 1, 2}};
  const auto token = tables.begin(too_many);
  EXPECT_THROW(tables.forward(token, 2), InvalidArgument);
  EXPECT_THROW(tables.accumulate(token, gradients(1, 2, 1)), InvalidArgument);
  tables.collection.release(token);
  tables.collection.clear_gradients();
  expect_same_rows(tables.rows(), before);
  some_steps(tables, 2);
}

/// The vectors of the second of two batches, which was planned before the first's step or behind
/// it.
std::vector<std::vector<float>> second_of_two(Tables& tables, bool ahead, std::uint64_t step) {
  auto first = batches(1, kBuckets, step), second = batches(1, kBuckets, 500 + step, 40 * step);
  const auto a = tables.plan(first);
  tables.forward(a, kBuckets);
  const auto planned = ahead ? tables.plan(second) : 0;
  tables.accumulate(a, gradients(1, kBuckets, step));
  tables.collection.release(a);
  tables.step();
  const auto b = ahead ? planned : tables.plan(second);
  auto outputs = tables.forward(b, kBuckets);
  tables.accumulate(b, gradients(1, kBuckets, step));
  tables.collection.release(b);
  tables.step();
  return outputs;
}

TEST(TableCollectionSteps, ASweepMovesRowsOfABatchAheadWhenTheyHaveBegun) {
  SparseEmbeddingHashParams sweeping = table(0, Combiner::Sum);
  sweeping.opt_params.update_type = Update::Global;
  Tables in_turn({sweeping});
  setenv("HUGECTR_STREAM_DELAY_US", "300", 1);
  Tables ahead({sweeping});
  unsetenv("HUGECTR_STREAM_DELAY_US");
  for (std::uint64_t step = 1; step <= 8; ++step) {
    const auto wanted = second_of_two(in_turn, false, step);
    EXPECT_EQ(second_of_two(ahead, true, step), wanted);
    expect_same_rows(ahead.rows(), in_turn.rows());
  }
}

TEST(TableCollectionSteps, AKeyThatIsNoneIsSaidByTheGradientsOfItsBatch) {
  TablesThat tables("0", {table(0, Combiner::Sum)});
  some_steps(tables, 1);
  const auto before = tables.rows();
  std::vector<HostBatch> bad{{{900, 901, kReserved}, {0, 1, 2, 3}}};
  const auto token = tables.begin(bad);
  const auto outputs = tables.forward(token, 3);
  EXPECT_EQ(std::vector<float>(outputs[0].end() - kDim, outputs[0].end()),
            std::vector<float>(kDim, 0.0f));
  EXPECT_THROW(tables.accumulate(token, gradients(1, 3, 1)), InvalidArgument);
  tables.collection.release(token);
  auto good = batches(1, kBuckets, 3);
  tables.collection.release(tables.begin(good));  // it has been said
  tables.collection.clear_gradients();
  expect_same_rows(tables.rows(), before);
  some_steps(tables, 2);
}

TEST(TableCollectionSteps, AKeyThatIsNoneIsSaidByTheNextBatchWhereItsOwnIsOver) {
  TablesThat tables("0", {table(0, Combiner::Sum)});
  some_steps(tables, 1);
  const auto before = tables.rows();
  std::vector<HostBatch> bad{{{900, kReserved}, {0, 1, 2}}};
  const auto token = tables.begin(bad);
  tables.forward(token, 2);
  tables.collection.release(token);
  auto good = batches(1, kBuckets, 3);
  EXPECT_THROW(tables.begin(good), InvalidArgument);
  expect_same_rows(tables.rows(), before);
  tables.collection.release(tables.begin(good));
}

TEST(TableCollectionSteps, AnUpdateIsGradientsAndAStep) {
  for (const Optimizer optimizer : {Optimizer::SGD, Optimizer::Adam, Optimizer::AdaGrad}) {
    for (const Update update : {Update::Local, Update::Global}) {
      for (const float second_rate : {0.1f, 0.3f}) {  // of one rate, and of two
        std::vector<SparseEmbeddingHashParams> params{table(0, Combiner::Sum, optimizer),
                                                      table(1, Combiner::Mean, optimizer)};
        for (auto& one : params) one.opt_params.update_type = update;
        const std::vector<float> rates{0.1f, second_rate};
        TablesThat at_once("0", params), one_by_one("1", params);
        for (std::uint64_t step = 1; step <= 8; ++step) {
          auto first = batches(2, kBuckets, step), second = batches(2, 7, 90 + step, 30 * step);
          for (TablesThat* const tables : {&at_once, &one_by_one}) {
            const auto a = tables->begin(first), b = tables->begin(second);
            for (const auto& [token, n] : {std::pair{b, std::size_t{7}}, {a, kBuckets}}) {
              tables->forward(token, n);
              if (tables == &at_once) {
                tables->update(token, gradients(2, n, step), rates);
              } else {
                tables->accumulate(token, gradients(2, n, step));
                tables->collection.step(rates, {}, 0);
              }
              tables->collection.release(token);
            }
          }
          expect_same_rows(at_once.rows(), one_by_one.rows());
        }
      }
    }
  }
}

}  // namespace
}  // namespace hugectr::test
