// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/session.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/cpp/model/small_model.hpp"

namespace hugectr {
namespace {

constexpr auto kDistributed = EmbeddingType::DistributedSlotSparseEmbeddingHash;
constexpr auto kLocalized = EmbeddingType::LocalizedSlotSparseEmbeddingHash;

TEST(Session, LearnsAndDoesNotDependOnTheDeviceCount) {
  for (const EmbeddingType type : {kDistributed, kLocalized}) {
    const ReaderSpec reader{.num_workers = 3, .memory = random_data(24 * 10, 1)};
    std::vector<float> one;
    for (const int devices : {1, 2, 3}) {
      SolverSpec solver = small_solver(devices);
      solver.lr.base_lr = 0.5;
      Session session(solver, reader, small_model(type, Optimizer::SGD));
      const std::vector<float> curve = losses(session, 60);
      EXPECT_LT(curve.back(), 0.8f * curve.front());
      if (one.empty()) one = curve;
      for (std::size_t i = 0; i < curve.size(); ++i) {
        EXPECT_NEAR(curve[i], one[i], 1e-5f * one[i]) << devices << " devices, step " << i;
      }
    }
  }
}

TEST(Session, EpochModeTrainsTheIncompleteBatchAndEnds) {
  SolverSpec solver = small_solver(2);
  solver.repeat_dataset = false;
  const ReaderSpec reader{.num_workers = 2, .memory = random_data(24 * 3 + 7, 1)};
  Session session(solver, reader, small_model(kDistributed, Optimizer::SGD));
  for (int epoch = 0; epoch < 3; ++epoch) {
    int steps = 0;
    while (session.train()) ++steps;
    EXPECT_EQ(steps, 4);
    EXPECT_TRUE(session.reader().at_end());
    EXPECT_FALSE(session.train());
    session.reader().set_source("");
    EXPECT_FALSE(session.reader().at_end());
  }
}

TEST(Session, DropIncompleteBatchLeavesItOut) {
  SolverSpec solver = small_solver(1);
  solver.repeat_dataset = false;
  solver.drop_incomplete_batch = true;
  const ReaderSpec reader{.num_workers = 2, .memory = random_data(24 * 3 + 7, 1)};
  Session session(solver, reader, small_model(kDistributed, Optimizer::SGD));
  int steps = 0;
  while (session.train()) ++steps;
  EXPECT_EQ(steps, 3);
}

TEST(Session, EvaluationSeesTrainedRowsOnly) {
  // The batch planned ahead has inserted its keys already; evaluation and dumps must not see them.
  const auto data = random_data(24 * 2, 1);
  for (std::size_t i = 24 * 3; i < data->sparse[0].keys.size(); ++i) {
    data->sparse[0].keys[i] += 1000;
  }
  const ReaderSpec reader{.num_workers = 1, .memory = data, .eval_memory = data};
  Session session(small_solver(1), reader, small_model(kDistributed, Optimizer::SGD));
  session.train();
  const std::set<std::int64_t> trained(data->sparse[0].keys.begin(),
                                       data->sparse[0].keys.begin() + 24 * 3);
  EXPECT_EQ(session.table(0).dump(false).size(), trained.size());
  EXPECT_TRUE(session.eval());
  EXPECT_TRUE(session.eval());
  EXPECT_EQ(session.table(0).stats().rows, trained.size());
  session.train();  // the plan that was taken back is made anew
  EXPECT_GT(session.table(0).dump(false).size(), trained.size());
}

TEST(Session, AFullBudgetIsAnErrorBeforeTheBatchTrainsAndTheSessionLives) {
  for (const int devices : {1, 2}) {
    const auto data = random_data(24 * 4, 1);
    const ReaderSpec reader{.num_workers = 1, .memory = data};
    Session session(small_solver(devices), reader,
                    small_model(kDistributed, Optimizer::Adam, 60 / devices));
    std::vector<float> before;
    bool thrown = false;
    for (int i = 0; i < 4 && !thrown; ++i) {
      before = session.network().dense_weights();
      try {
        session.train();
      } catch (const OutOfMemory& e) {
        thrown = true;
        EXPECT_NE(std::string(e.what()).find("'emb'"), std::string::npos) << e.what();
      }
    }
    EXPECT_TRUE(thrown);
    EXPECT_EQ(session.network().dense_weights(), before);
    const BufferBag rows = session.table(0).dump(false);
    EXPECT_LE(rows.size(), 60u);
    for (const float value : rows.vectors) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Session, FrozenPartsStay) {
  const ReaderSpec reader{.num_workers = 1, .memory = random_data(24, 1)};
  Session session(small_solver(1), reader, small_model(kDistributed, Optimizer::SGD));
  session.train();
  const auto rows = session.table(0).dump(false).vectors;
  const auto dense = session.network().dense_weights();
  session.set_trainable("emb", false);
  session.train();
  EXPECT_EQ(session.table(0).dump(false).vectors, rows);
  EXPECT_NE(session.network().dense_weights(), dense);
  session.set_trainable("emb", true);
  session.set_trainable("", false);
  const auto dense_now = session.network().dense_weights();
  session.train();
  EXPECT_NE(session.table(0).dump(false).vectors, rows);
  EXPECT_EQ(session.network().dense_weights(), dense_now);
  EXPECT_THROW(session.set_trainable("nobody", true), InvalidArgument);
}

TEST(Session, MetricsAndTensors) {
  SolverSpec solver = small_solver(2);
  solver.metrics = {"AUC", "AverageLoss"};
  const auto data = random_data(24 * 4, 1);
  const ReaderSpec reader{.num_workers = 1, .memory = data, .eval_memory = data};
  Session session(solver, reader, small_model(kLocalized, Optimizer::Adam));
  losses(session, 100);
  for (int i = 0; i < 4; ++i) session.eval();
  const auto metrics = session.get_eval_metrics();
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].first, "AUC");
  EXPECT_GT(metrics[0].second, 0.9);
  EXPECT_EQ(metrics[1].first, "AverageLoss");
  EXPECT_LT(metrics[1].second, 0.5);
  EXPECT_TRUE(std::isnan(session.get_eval_metrics()[0].second));  // taken: starts anew
  Shape shape;
  EXPECT_EQ(session.network().check_out_tensor("relu1", true, &shape).size(), 24u * 8u);
  EXPECT_EQ(shape, (Shape{24, 8}));
  EXPECT_THROW(session.network().check_out_tensor("nobody", true, &shape), InvalidArgument);
}

TEST(Session, WrongModelsAreNamed) {
  const ReaderSpec reader{.num_workers = 1, .memory = random_data(24, 1)};
  const auto message = [&](const ModelSpec& model, const SolverSpec& solver) -> std::string {
    try {
      Session session(solver, reader, model);
    } catch (const InvalidArgument& e) {
      return e.what();
    }
    return "";
  };
  ModelSpec model = small_model(kDistributed, Optimizer::SGD);
  model.layers[1].bottoms[0] = "flatt";
  EXPECT_NE(message(model, small_solver(1)).find("flatt"), std::string::npos);
  model = small_model(kDistributed, Optimizer::SGD);
  model.layers[3].tops[0] = "fc1";
  EXPECT_NE(message(model, small_solver(1)).find("fc1"), std::string::npos);
  model = small_model(kDistributed, Optimizer::SGD);
  model.embeddings[0].bottoms = {"dada"};
  EXPECT_NE(message(model, small_solver(1)).find("dada"), std::string::npos);
  EXPECT_NE(message(small_model(kDistributed, Optimizer::SGD), small_solver(5)).find("24"),
            std::string::npos);
}

}  // namespace
}  // namespace hugectr
