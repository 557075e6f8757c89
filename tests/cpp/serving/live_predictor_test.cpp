// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/serving/live_predictor.hpp"

#include <gtest/gtest.h>

#include "core/cpp/serving/predictor.hpp"
#include "tests/cpp/serving/trained_model.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kSamples = 24 * 4 + 7;

TEST(LivePredictor, IsEvaluationToTheBitOnAnyDevices) {
  for (const EmbeddingType type : {kDistributed, kLocalized}) {
    for (const int devices : {1, 2, 3}) {
      const auto data = many_hot_data(kSamples, 1);
      SolverSpec solver = small_solver(devices);
      solver.metrics = {"AUC", "AverageLoss", "LogLoss"};
      solver.repeat_dataset = false;
      const auto session = trained(solver, many_hot_model(type), data);
      const std::vector<float> wanted = evaluated(*session, "fc2", kSamples);
      session->get_eval_metrics();
      evaluated(*session, "fc2", kSamples);
      const auto metrics = session->get_eval_metrics();
      LivePredictor live(*session, 24);
      EXPECT_EQ(live.predict(data, "logit"), wanted) << devices;
      EXPECT_EQ(live.predict(data, "relu1"), evaluated(*session, "relu1", kSamples)) << devices;
      EXPECT_EQ(live.evaluate(data, solver.metrics), metrics) << devices;
      EXPECT_EQ(live.sample_shape("emb"), (Shape{3, 4}));
    }
  }
}

TEST(LivePredictor, TrainingGoesOnAsIfItHadNotBeen) {
  for (const int devices : {1, 2}) {
    const auto data = many_hot_data(kSamples, 1);
    const ModelSpec model = many_hot_model(kDistributed);
    const auto with = trained(small_solver(devices), model, data);
    const auto without = trained(small_solver(devices), model, data);
    const auto others = many_hot_data(50, 9);
    LivePredictor live(*with, 12);
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(losses(*with, 1), losses(*without, 1));
      live.predict(others, "probability");
      live.evaluate(others, {"AUC"});
    }
    EXPECT_EQ(with->network().dense_weights(), without->network().dense_weights());
    EXPECT_EQ(with->table(0).dump(true).vectors, without->table(0).dump(true).vectors);
    EXPECT_EQ(with->table(0).dump(true).states, without->table(0).dump(true).states);
    EXPECT_EQ(evaluated(*with, "fc2", kSamples), evaluated(*without, "fc2", kSamples));
    EXPECT_EQ(with->get_eval_metrics(), without->get_eval_metrics());
  }
}

TEST(LivePredictor, NeedsNoEvaluationDataAndFollowsTheTraining) {
  const auto data = many_hot_data(kSamples, 1);
  const ModelSpec model = many_hot_model(kDistributed);
  Session session(small_solver(1), ReaderSpec{.num_workers = 1, .memory = data}, model);
  const auto whole = trained(small_solver(1), model, data);
  LivePredictor live(session, 24);
  const std::vector<float> before = live.predict(data, "logit");
  losses(session, 3);
  EXPECT_EQ(live.predict(data, "logit"), evaluated(*whole, "fc2", kSamples));
  EXPECT_NE(live.predict(data, "logit"), before);
}

TEST(LivePredictor, SaysWhatItDoesNotTake) {
  const auto data = many_hot_data(kSamples, 1);
  const ModelSpec model = many_hot_model(kDistributed);
  const auto session = trained(small_solver(2), model, data);
  EXPECT_TRUE(says(refusal([&] { LivePredictor live(*session, 23); }), "multiple of the number"));
  EXPECT_TRUE(says(refusal([&] { LivePredictor live(*session, 240); }), "at most 24"));
  LivePredictor live(*session, 24);
  auto bad = std::make_shared<MemoryData>(*data);
  bad->sparse[0].keys.back() = 0xFFFFFFFF;
  EXPECT_TRUE(says(refusal([&] { live.predict(bad, "logit"); }), "reserved"));
  EXPECT_TRUE(says(refusal([&] { live.evaluate(data, {"Fame"}); }), "'Fame'"));
  EXPECT_EQ(live.predict(data, "logit"), evaluated(*session, "fc2", kSamples));
  EXPECT_EQ(losses(*session, 2).size(), 2u);
}

}  // namespace
}  // namespace hugectr
