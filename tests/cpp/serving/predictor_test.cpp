// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/serving/predictor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "tests/cpp/serving/trained_model.hpp"

namespace hugectr {
namespace {

/// The same in float64.
double sigmoid_of(float x) { return 1.0 / (1.0 + std::exp(-static_cast<double>(x))); }

void expect_near(const std::vector<float>& a, const std::vector<float>& b, float bound) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], bound) << i;
}

class PredictorOf : public ::testing::TestWithParam<EmbeddingType> {
 protected:
  static constexpr std::size_t kSamples = 24 * 4 + 7;  // the last batch is short
  PredictorOf()
      : data_(many_hot_data(kSamples, 1)),
        session_(trained(small_solver(1), model_, data_)),
        read_(for_prediction(*session_, small_solver(1), model_)) {}

  const ModelSpec model_ = many_hot_model(GetParam());
  std::shared_ptr<MemoryData> data_;
  std::unique_ptr<Session> session_, read_;
};

TEST_P(PredictorOf, IsEvaluationToTheBitAtItsBatchSize) {
  const Predictor predictor(*read_);
  const std::vector<float> wanted = evaluated(*session_, "fc2", kSamples);
  EXPECT_EQ(predictor.predict(*data_, "logit", 24), wanted);
  EXPECT_EQ(predictor.predict(*data_, "fc2", 24), wanted);
  EXPECT_EQ(predictor.predict(*data_, "relu1", 24), evaluated(*session_, "relu1", kSamples));
  EXPECT_EQ(predictor.predict(*data_, "emb", 24), evaluated(*session_, "emb", kSamples));
  EXPECT_EQ(predictor.predict(*data_, Predictor::kProbability, 24),
            evaluated(*session_, "loss@prediction", kSamples));
}

TEST_P(PredictorOf, GivesARowTheSameBitsWhateverElseIsInItsBatch) {
  const Predictor predictor(*read_);
  const std::vector<float> wanted = evaluated(*session_, "fc2", kSamples);
  std::vector<std::size_t> order(kSamples);
  // Where a row is in its batch decides how OpenBLAS rounds: every third one stays.
  for (std::size_t i = 0; i < kSamples; ++i) order[i] = i % 3 == 0 ? i : (i * 7) % kSamples;
  const std::vector<float> mixed = predictor.predict(*reordered(*data_, order), "logit", 24);
  for (std::size_t i = 0; i < kSamples; i += 3) EXPECT_EQ(mixed[i], wanted[i]) << i;
}

TEST_P(PredictorOf, IsTheSameUpToRoundingForOtherBatchSizes) {
  const Predictor predictor(*read_);
  const std::vector<float> logits = evaluated(*session_, "fc2", kSamples);
  std::vector<float> wanted;
  for (const float x : logits) wanted.push_back(static_cast<float>(sigmoid_of(x)));
  for (const std::size_t batch : {0, 1, 2, 5, 17, 32, 100, 103, 1000}) {
    expect_near(predictor.predict(*data_, Predictor::kProbability, batch), wanted, 1e-6f);
  }
  std::vector<std::size_t> first(kSamples);
  std::iota(first.begin(), first.end(), 0);
  for (const std::size_t n : {1, 2, 4, 5, 23, 24, 25, 47, 48}) {
    first.resize(n);
    wanted.resize(kSamples);
    const auto found = predictor.predict(*reordered(*data_, {first.begin(), first.end()}));
    expect_near(found, {wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(n)}, 1e-6f);
    first.resize(kSamples);
    std::iota(first.begin(), first.end(), 0);
  }
}

TEST_P(PredictorOf, InsertsNothingAndReadsZerosForUnseenKeys) {
  const Predictor predictor(*read_);
  const std::size_t rows = read_->table(0).stats().rows;
  auto unseen = std::make_shared<MemoryData>(*data_);
  for (std::int64_t& key : unseen->sparse[0].keys) key += 1 << 20;
  for (const float x : predictor.predict(*unseen, "emb")) EXPECT_EQ(x, 0.0f);
  EXPECT_EQ(read_->table(0).stats().rows, rows);
}

TEST_P(PredictorOf, HasThreadsAtOnce) {
  const Predictor predictor(*read_);
  constexpr int kThreads = 8, kRounds = 20;
  // What each of them asks, and is to be told.
  std::vector<std::shared_ptr<MemoryData>> asked;
  std::vector<std::vector<float>> wanted, wanted_of_one;
  std::mt19937 random(3);
  for (int i = 0; i < kThreads * kRounds; ++i) {
    std::vector<std::size_t> order(1 + random() % 60);
    for (std::size_t& k : order) k = random() % kSamples;
    asked.push_back(reordered(*data_, order));
    wanted.push_back(predictor.predict(*asked.back(), "logit", 24));
    wanted_of_one.push_back(predictor.predict(*reordered(*data_, {order[0]}), "logit"));
  }
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t * kRounds; i < (t + 1) * kRounds; ++i) {
        const auto n = static_cast<std::size_t>(i);
        wrong[t] += predictor.predict(*asked[n], "logit", 24) != wanted[n];
        wrong[t] += predictor.predict(*reordered(*asked[n], {0}), "logit") != wanted_of_one[n];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
  // Of sizes 1 and 24 at most one a thread, or two where batches go side by side.
  EXPECT_LE(predictor.executions(), 4u * kThreads);
  const std::size_t made = predictor.executions();
  predictor.predict(*data_, "logit", 24);
  EXPECT_LE(predictor.executions(), made + 2);  // they are taken again
}

TEST_P(PredictorOf, SaysWhatItDoesNotTake) {
  const Predictor predictor(*read_);
  const auto text_of = [&](const MemoryData& data) {
    return refusal([&] { predictor.predict(data); });
  };
  MemoryData bad = *data_;
  bad.dense[2 * 50 + 1] = NAN;
  EXPECT_TRUE(says(text_of(bad), "sample 50: dense value 1 is nan")) << text_of(bad);
  bad = *data_;
  bad.dense.pop_back();
  EXPECT_TRUE(says(text_of(bad), "dense values, need samples * dense_dim")) << text_of(bad);
  bad = *data_;
  bad.sparse[0].keys[0] = -1;
  EXPECT_TRUE(says(text_of(bad), "key -1 does not fit uint32")) << text_of(bad);
  bad = *data_;
  bad.sparse[0].keys.back() = 0xFFFFFFFF;
  EXPECT_TRUE(says(text_of(bad), "has the key 4294967295, which is reserved")) << text_of(bad);
  EXPECT_TRUE(says(text_of(bad), concat("sample ", kSamples - 1, ", slot"))) << text_of(bad);
  bad = *data_;
  bad.sparse.clear();
  EXPECT_TRUE(says(text_of(bad), "0 sparse inputs, the model has 1")) << text_of(bad);
  for (const char* output : {"fc3", "fc2.weight", "loss@partial", "fc1.bias"}) {
    EXPECT_NE(refusal([&] { predictor.predict(*data_, output); }), "") << output;
  }
  // It goes on as if nothing had been.
  EXPECT_EQ(predictor.predict(*data_, "logit", 24), evaluated(*session_, "fc2", kSamples));
}

INSTANTIATE_TEST_SUITE_P(Types, PredictorOf, ::testing::Values(kDistributed, kLocalized));

TEST(Predictor, GivesNothingForNoSamplesAndShapes) {
  const auto data = random_data(48, 1);
  const ModelSpec model = small_model(kLocalized, Optimizer::SGD);
  const auto session = trained(small_solver(1), model, data);
  const Predictor predictor(*session);
  MemoryData none;
  none.sparse.resize(1);
  none.sparse[0].row_offsets = {0};
  EXPECT_TRUE(predictor.predict(none).empty());
  EXPECT_EQ(predictor.sample_shape("probability"), Shape{1});
  EXPECT_EQ(predictor.sample_shape("emb"), (Shape{3, 4}));
  EXPECT_EQ(predictor.sample_shape("relu1"), Shape{8});
}

TEST(Predictor, OfAnEmptyTableAndOfAModelWithoutALoss) {
  ModelSpec model = small_model(kDistributed, Optimizer::SGD);
  model.layers.pop_back();
  SolverSpec solver = small_solver(1);
  solver.metrics.clear();
  Session session(solver, std::nullopt, model);
  const Predictor predictor(session);
  const auto data = random_data(30, 1);
  for (const float x : predictor.predict(*data, "emb")) EXPECT_EQ(x, 0.0f);
  EXPECT_EQ(predictor.predict(*data, "fc2").size(), 30u);
  const std::string text = refusal([&] { predictor.predict(*data); });
  EXPECT_TRUE(says(text, "has no loss")) << text;
}

TEST(Predictor, NeedsASessionWithOneDevice) {
  ModelSpec model = small_model(kDistributed, Optimizer::SGD);
  Session session(small_solver(2), std::nullopt, model);
  const std::string text = refusal([&] { const Predictor predictor(session); });
  EXPECT_TRUE(says(text, "one device, this one has 2")) << text;
}

}  // namespace
}  // namespace hugectr
