// SPDX-License-Identifier: Apache-2.0
// Models that lack a part: a reader, a loss, training.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "core/cpp/model/session.hpp"
#include "tests/cpp/model/small_model.hpp"

namespace hugectr {
namespace {

constexpr auto kDistributed = EmbeddingType::DistributedSlotSparseEmbeddingHash;
constexpr auto kLocalized = EmbeddingType::LocalizedSlotSparseEmbeddingHash;

/// What `call` is refused with; empty: it is not.
template <class F>
std::string refusal(const F& call) {
  try {
    call();
  } catch (const InvalidArgument& e) {
    return e.what();
  }
  return "";
}

bool says(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

std::size_t bytes_of(const Session& session) {
  std::size_t bytes = 0;
  for (const MemoryReportEntry& entry : session.memory_report()) bytes += entry.bytes;
  return bytes;
}

/// small_model(), wide enough for weights and rows to be what its memory is.
ModelSpec wide_model(EmbeddingType type) {
  ModelSpec model = small_model(type, Optimizer::Adam);
  model.embeddings[0].embedding_vec_size = 256;
  model.layers[0].attributes.set("leading_dim", std::int64_t{3 * 256});
  model.layers[2].attributes.set("num_output", std::int64_t{512});
  return model;
}

ReaderSpec reader_of(const std::shared_ptr<MemoryData>& data) {
  return {.num_workers = 1, .memory = data, .eval_memory = data};
}

/// The weights and rows of another session.
void take_over(Session& session, Session& from) {
  session.network().set_dense_weights(from.network().dense_weights());
  session.network().set_non_trainables(from.network().non_trainables());
  session.table(0).load(from.table(0).dump(false));
}

struct Evaluation {
  std::vector<float> logits;
  std::vector<std::pair<std::string, double>> metrics;
  bool operator==(const Evaluation&) const = default;
};

Evaluation evaluation_of(Session& session, int batches) {
  Evaluation found;
  for (int i = 0; i < batches; ++i) {
    EXPECT_TRUE(session.eval());
    for (const float x : session.network().check_out_tensor("fc2", false, nullptr)) {
      found.logits.push_back(x);
    }
  }
  found.metrics = session.get_eval_metrics();
  return found;
}

TEST(SessionParts, WithoutAReaderAllButReadingWorks) {
  const auto data = random_data(24 * 4, 1);
  const ModelSpec model = wide_model(kLocalized);
  Session whole(small_solver(2), reader_of(data), model);
  Session session(small_solver(2), std::nullopt, model);
  EXPECT_FALSE(session.has_reader());
  EXPECT_TRUE(session.trains());
  for (const std::string& text :
       {refusal([&] { session.train(); }), refusal([&] { session.eval(); }),
        refusal([&] { session.reader(); })}) {
    EXPECT_TRUE(says(text, "built without a reader: build it with one")) << text;
  }
  EXPECT_EQ(bytes_of(session), bytes_of(whole));  // readers are no part of the report
  losses(whole, 5);
  take_over(session, whole);
  session.network().set_dense_optimizer_states(whole.network().dense_optimizer_states());
  session.set_step(whole.step());
  EXPECT_EQ(session.network().dense_optimizer_states(), whole.network().dense_optimizer_states());
  EXPECT_EQ(session.table(0).dump(false).vectors, whole.table(0).dump(false).vectors);
  EXPECT_GT(session.table(0).stats().rows, 0u);
  EXPECT_EQ(session.get_current_loss(), 0.0f);
  session.check_loss();
  EXPECT_EQ(session.summary().size(), whole.summary().size());
  session.table(0).reset();
  EXPECT_EQ(session.table(0).stats().rows, 0u);
  session.stage_seconds();
  session.set_profiling(true);
  EXPECT_TRUE(session.take_op_times().empty());
  session.end(1.0);
}

TEST(SessionParts, WithoutALossNothingTrainsAndTensorsCanBeLookedAt) {
  const auto data = random_data(24 * 4, 1);
  const ModelSpec model = wide_model(kDistributed);
  Session whole(small_solver(1), reader_of(data), model);
  losses(whole, 5);
  ModelSpec without = model;
  without.layers.pop_back();
  SolverSpec solver = small_solver(1);
  const std::string text =
      refusal([&] { const Session session(solver, reader_of(data), without); });
  EXPECT_TRUE(says(text, "'AUC'") && says(text, "no loss")) << text;
  solver.metrics.clear();
  Session session(solver, reader_of(data), without);
  EXPECT_FALSE(session.trains());
  for (const std::string& refused :
       {refusal([&] { session.train(); }), refusal([&] { session.get_current_loss(); })}) {
    EXPECT_TRUE(says(refused, "no loss") && says(refused, "last layer")) << refused;
  }
  take_over(session, whole);
  const Evaluation found = evaluation_of(session, 4);
  EXPECT_EQ(found.logits, evaluation_of(whole, 4).logits);
  EXPECT_TRUE(found.metrics.empty());
  EXPECT_LT(3 * bytes_of(session), bytes_of(whole));
}

TEST(SessionParts, WithoutTrainingEvaluationIsTheSameToTheBitAndTheMemoryAThird) {
  for (const EmbeddingType type : {kDistributed, kLocalized}) {
    for (const int devices : {1, 2, 3}) {
      SolverSpec solver = small_solver(devices);
      solver.metrics = {"AUC", "AverageLoss"};
      const auto data = random_data(24 * 4, 1);
      ModelSpec model = wide_model(type);
      Session trained(solver, reader_of(data), model);
      losses(trained, 20);
      const Evaluation wanted = evaluation_of(trained, 4);
      model.trains = false;
      Session session(solver, reader_of(data), model);
      EXPECT_FALSE(session.trains());
      const std::string text = refusal([&] { session.train(); });
      EXPECT_TRUE(says(text, "not to train") && says(text, "trains = true")) << text;
      EXPECT_NE(refusal([&] { session.reader().set_source(""); }), "");
      take_over(session, trained);
      EXPECT_EQ(evaluation_of(session, 4), wanted) << devices << " devices";

      EXPECT_TRUE(session.table(0).state_widths().empty());
      EXPECT_TRUE(session.network().dense_optimizer_states().empty());
      for (const MemoryReportEntry& entry : session.memory_report()) {
        const std::string name = entry.owner + ": " + entry.name;
        for (const char* of_training : {"training", "gradient", "optimizer", "unique"}) {
          EXPECT_FALSE(says(name, of_training)) << name << " has " << entry.bytes << " bytes";
        }
      }
      // Weights and rows of Adam: three numbers instead of one, and gradients.
      EXPECT_LT(3 * bytes_of(session), bytes_of(trained)) << devices << " devices";
    }
  }
}

TEST(SessionParts, WithoutTrainingOrReaderItTakesRowsAndWeights) {
  ModelSpec model = wide_model(kLocalized);
  model.trains = false;
  Session session(small_solver(2), std::nullopt, model);
  const std::string text = refusal([&] { session.train(); });
  EXPECT_TRUE(says(text, "not to train")) << text;
  BufferBag rows;
  rows.vec_size = 256;
  rows.keys = {7, 9};
  rows.slot_ids = {0, 2};
  rows.vectors.assign(2 * 256, 0.5f);
  session.table(0).load(rows);
  EXPECT_EQ(session.table(0).dump(true).vectors, rows.vectors);
  rows.states = {rows.vectors, rows.vectors};
  EXPECT_TRUE(says(refusal([&] { session.table(0).load(rows); }), "0 states"));
  // Only the training data is named: there is nothing to read.
  const ReaderSpec reader{.num_workers = 1, .memory = random_data(24, 1)};
  const std::string refused = refusal([&] { const Session other(small_solver(1), reader, model); });
  EXPECT_TRUE(says(refused, "eval_source")) << refused;
}

TEST(SessionParts, ErasedRowsAreGoneAndTheBatchAheadIsPlannedAnew) {
  for (const int devices : {1, 2}) {
    Session session(small_solver(devices), reader_of(random_data(24 * 4, 1)),
                    small_model(kLocalized, Optimizer::SGD));
    losses(session, 4);
    const BufferBag before = session.table(0).dump(false);
    losses(session, 1);
    session.table(0).stats();  // waits for the plan of the next batch
    const std::vector<std::int64_t> keys{before.keys[0], before.keys[5], 1 << 20};
    const std::vector<std::uint64_t> slots{before.slot_ids[0], before.slot_ids[5], 1};
    EXPECT_EQ(session.table(0).erase(keys, slots), 2u);
    const BufferBag after = session.table(0).dump(false);
    EXPECT_EQ(after.size(), before.size() - 2);
    EXPECT_EQ(after.keys[0], before.keys[1]);
    losses(session, 4);
    EXPECT_EQ(session.table(0).dump(false).keys, before.keys);  // they came back
  }
}

TEST(SessionParts, ATableThatIsNotThereIsNamed) {
  Session session(small_solver(1), std::nullopt, small_model(kLocalized, Optimizer::SGD));
  EXPECT_EQ(session.num_tables(), 1u);
  EXPECT_EQ(session.table(0).name(), "emb");
  EXPECT_TRUE(says(refusal([&] { session.table(1); }), "no table 1: the model has 1"));
}

}  // namespace
}  // namespace hugectr
