// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/metrics/eval_metrics.hpp"

#include <random>

#include "tests/cpp/metrics/evaluation.hpp"
#include "tests/cuda/gpu.hpp"

/// Metrics on GPUs are those of virtual CPU devices with the same samples.
namespace hugectr {
namespace {

template <int kDevices>
void expect_same_as_on_the_cpu() {
  const std::vector<std::string> names = {"AUC",  "LogLoss", "Calibration", "HitRate",
                                          "NDCG", "SMAPE",   "GAUC",        "MSE"};
  const EvalSubject subject{.has_groups = true};
  const auto gpus = test_resources(DeviceType::Cuda, kDevices);
  const auto cpus = test_resources(DeviceType::Cpu, kDevices);
  EvalMetrics on_gpus(names, kDevices, subject), on_cpus(names, kDevices, subject);
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  // Rows of several blocks of kept samples; then fewer, of one; then more again.
  for (const std::size_t n : {1'000'000u, 1000u, 300'000u}) {
    const TestSamples samples = test_samples(n, seed + n);
    evaluate(on_gpus, *gpus, samples, 7001);
    evaluate(on_cpus, *cpus, samples, 7001);
    const MetricValues found = taken(on_gpus, *gpus), wanted = taken(on_cpus, *cpus);
    EXPECT_EQ(found.at("AUC"), wanted.at("AUC"));  // counts: exact
    EXPECT_EQ(found.at("AUC"), expected_metrics(samples).at("AUC"));
    for (const std::string& name : names) {
      EXPECT_NEAR(found.at(name), wanted.at(name), 1e-6 * wanted.at(name)) << name;
    }
  }
}

using EvalMetricsOnAGpu = GpuTest<1>;
using EvalMetricsOnTwoGpus = GpuTest<2>;

TEST_F(EvalMetricsOnAGpu, AreThoseOfTheCpu) { expect_same_as_on_the_cpu<1>(); }
TEST_F(EvalMetricsOnTwoGpus, AreThoseOfTheCpu) { expect_same_as_on_the_cpu<2>(); }

}  // namespace
}  // namespace hugectr
