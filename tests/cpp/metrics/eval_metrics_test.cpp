// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/metrics/eval_metrics.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "core/cpp/metrics/metrics.hpp"
#include "tests/cpp/metrics/evaluation.hpp"

namespace hugectr {
namespace {

const std::vector<std::string> kOfSamples = {"AUC", "LogLoss", "Calibration"};

void expect_close(const MetricValues& found, const MetricValues& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  EXPECT_EQ(found.at("AUC"), wanted.at("AUC"));  // counts: exact
  for (const char* const name : {"LogLoss", "Calibration"}) {
    EXPECT_NEAR(found.at(name), wanted.at(name), 1e-6 * wanted.at(name)) << name;
  }
}

class OnDevices : public testing::TestWithParam<std::size_t> {};

TEST_P(OnDevices, MetricsAreThoseOfAllSamples) {
  const auto resources = test_resources(DeviceType::Cpu, GetParam());
  EvalMetrics metrics(kOfSamples, GetParam());
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  // Rows of several blocks of kept samples; then fewer, of one; then more again.
  for (const std::size_t n : {600'000u, 1000u, 300'000u}) {
    const TestSamples samples = test_samples(n, seed + n);
    evaluate(metrics, *resources, samples, 7001);
    expect_close(taken(metrics, *resources), expected_metrics(samples));
  }
}

TEST_P(OnDevices, NothingIsNotANumber) {
  const auto resources = test_resources(DeviceType::Cpu, GetParam());
  EvalMetrics metrics(kOfSamples, GetParam());
  for (const bool had_some : {false, true}) {
    for (const auto& [name, value] : taken(metrics, *resources)) {
      EXPECT_TRUE(std::isnan(value)) << name << " " << had_some;
    }
    evaluate(metrics, *resources, test_samples(100, 1), 50);
    taken(metrics, *resources);
  }
}

INSTANTIATE_TEST_SUITE_P(EvalMetrics, OnDevices, testing::Values(1, 2, 5));

TEST(EvalMetrics, OneClassOnly) {
  const auto resources = test_resources(DeviceType::Cpu, 1);
  EvalMetrics metrics(kOfSamples, 1);
  TestSamples samples = test_samples(100, 1);
  samples.labels.assign(samples.size(), 0.0f);
  evaluate(metrics, *resources, samples, 100);
  const MetricValues values = taken(metrics, *resources);
  EXPECT_TRUE(std::isnan(values.at("AUC")));
  EXPECT_GT(values.at("LogLoss"), 0.0);
  EXPECT_TRUE(std::isinf(values.at("Calibration")));
}

// Two tasks and two losses: values of each, and the mean or the sum of all.
TEST(EvalMetrics, TasksAndLossesHaveValuesOfTheirOwn) {
  const auto resources = test_resources(DeviceType::Cpu, 1);
  const EvalSubject subject{
      {{"a", Prediction::Sigmoid}, {"b", Prediction::Identity}}, {"first", "second"}, false};
  EvalMetrics metrics({"AUC", "LogLoss", "AverageLoss"}, 1, subject);
  metrics.add_batch({5.0, 1.0, 4.0}, 10.0);
  evaluate(metrics, *resources, test_samples(1000, 1), 500);  // of the first task
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics.take(*resources)) names.push_back(name);
  const std::vector<std::string> wanted = {
      "AUC",     "AUC_a",    "AUC_b", "AverageLoss", "AverageLoss_first", "AverageLoss_second",
      "LogLoss", "LogLoss_a"};
  EXPECT_EQ(names, wanted);
  metrics.add_batch({5.0, 1.0, 4.0}, 10.0);
  const MetricValues values = taken(metrics, *resources);
  EXPECT_EQ(values.at("AverageLoss"), 5.0);
  EXPECT_EQ(values.at("AverageLoss_second"), 4.0);
}

TEST(EvalMetrics, TheMeanOverTasksLeavesOutRegressionsBesideOthers) {
  const auto resources = test_resources(DeviceType::Cpu, 1);
  const auto names_and_mean = [&](const std::vector<EvalTask>& tasks, const char* metric) {
    EvalMetrics metrics({metric}, 1, {tasks, {"loss"}, false});
    evaluate(metrics, *resources, test_samples(1000, 1), 500);  // of the first task; others: NaN
    return taken(metrics, *resources);
  };
  const EvalTask click{"click", Prediction::Sigmoid}, price{"price", Prediction::Identity};
  const EvalTask kind{"kind", Prediction::Softmax, false};
  for (const char* metric : {"AUC", "HitRate"}) {
    const std::string name = metric;
    const MetricValues found = names_and_mean({click, price}, metric);
    EXPECT_EQ(found.at(name), found.at(name + "_click"));
    EXPECT_TRUE(found.contains(name + "_price"));
    EXPECT_TRUE(std::isnan(names_and_mean({price, price}, metric).at(name)));
    // Of a task among others, whatever those have.
    const MetricValues beside = names_and_mean({click, kind}, metric);
    EXPECT_EQ(beside.at(name), beside.at(name + "_click"));
  }
  EXPECT_TRUE(std::isnan(names_and_mean({click, price}, "MSE").at("MSE")));
}

TEST(EvalMetrics, WhatNoTaskHasIsRefused) {
  const EvalSubject values{{{"price", Prediction::Identity}}, {"loss"}, false};
  EXPECT_THROW(EvalMetrics({"LogLoss"}, 1, values), InvalidArgument);
  EXPECT_THROW(EvalMetrics({"GAUC"}, 1, values), InvalidArgument);
  EXPECT_THROW(EvalMetrics({"AUC"}, 1, EvalSubject{{}, {"loss"}, false}), InvalidArgument);
}

TEST(EvalMetrics, AverageLossWeighsBatchesByTheirSamples) {
  const auto resources = test_resources(DeviceType::Cpu, 1);
  EvalMetrics metrics({"AverageLoss"}, 1);
  metrics.add_batch(0.5, 3.0);
  metrics.add_batch(1.5, 1.0);
  EXPECT_EQ(taken(metrics, *resources).at("AverageLoss"), 0.75);
  EXPECT_TRUE(std::isnan(taken(metrics, *resources).at("AverageLoss")));
}

TEST(EvalMetrics, AreTakenInTheOrderOfTheCatalogue) {
  const auto resources = test_resources(DeviceType::Cpu, 1);
  EvalMetrics metrics({"Calibration", "AUC", "Calibration"}, 1);
  const auto values = metrics.take(*resources);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0].first, "AUC");
  EXPECT_EQ(values[1].first, "Calibration");
}

TEST(EvalMetrics, UnknownNamesAreRefused) {
  try {
    EvalMetrics({"AUC", "Auk"}, 1);
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("'Auk', allowed: 'AUC', 'AverageLoss'"),
              std::string::npos)
        << error.what();
  }
}

TEST(Metrics, NamesAreUniqueAndDocumented) {
  std::set<std::string> names;
  for (const EntryDescription& entry : describe_metrics()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.doc.empty()) << entry.name;
  }
}

}  // namespace
}  // namespace hugectr
