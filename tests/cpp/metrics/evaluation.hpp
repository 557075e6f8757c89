// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/cpp/metrics/eval_metrics.hpp"

/// Evaluations of made-up samples, on devices of any kind, and what they must come to.
namespace hugectr {

struct TestSamples {
  std::vector<float> scores, labels, weights;
  std::size_t size() const { return scores.size(); }
};

/// Scores that are tied now and then; a tenth of the samples has no weight, and a score that is not
/// a number.
inline TestSamples test_samples(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  TestSamples samples;
  for (std::size_t i = 0; i < n; ++i) {
    const double score = std::floor(uniform(random) * 4000.0) / 400.0 - 6.0;
    const bool counts = uniform(random) < 0.9;
    samples.scores.push_back(counts ? static_cast<float>(score) : std::nanf(""));
    samples.labels.push_back(uniform(random) < 1.0 / (1.0 + std::exp(-0.5 * score)) ? 1.0f : 0.0f);
    samples.weights.push_back(counts ? 1.0f : 0.0f);
  }
  return samples;
}

using MetricValues = std::map<std::string, double>;

/// In float64: the AUC by sorting counts of positives and negatives a score.
inline MetricValues expected_metrics(const TestSamples& samples) {
  std::map<float, std::pair<double, double>> at_score;
  double loss = 0.0, predictions = 0.0, labels = 0.0, count = 0.0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples.weights[i] == 0.0f) continue;
    const double x = static_cast<double>(samples.scores[i]);
    const double y = static_cast<double>(samples.labels[i]);
    (y > 0.5 ? at_score[samples.scores[i]].first : at_score[samples.scores[i]].second) += 1.0;
    loss += std::fmax(x, 0.0) - x * y + std::log1p(std::exp(-std::fabs(x)));
    predictions += 1.0 / (1.0 + std::exp(-x));
    labels += y;
    count += 1.0;
  }
  double wins = 0.0, below = 0.0;
  for (const auto& [score, counts] : at_score) {
    wins += counts.first * (below + 0.5 * counts.second);
    below += counts.second;
  }
  return {{"AUC", wins / (labels * below)},
          {"LogLoss", loss / count},
          {"Calibration", predictions / labels}};
}

/// Batches of `samples`, dealt out to the devices of `resources` as a reader does; the last batch
/// is filled up with rows of weight 0.
inline void evaluate(EvalMetrics& metrics, ResourceManager& resources, const TestSamples& samples,
                     std::size_t rows) {
  const std::size_t devices = resources.get_local_gpu_count();
  const std::size_t batch = rows * devices;
  for (std::size_t first = 0; first < samples.size(); first += batch) {
    resources.for_each_device([&](std::size_t id) {
      GPUResource& gpu = resources.get_local_gpu(id);
      Stream& stream = gpu.compute_stream();
      Tensor2<float> device = metric_tensor<float>(gpu, {5, rows}, "test rows");
      const std::vector<float>* const from[] = {&samples.scores, &samples.labels, &samples.weights};
      std::vector<float> host(5 * rows);
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t i = first + id * rows + r;
        if (i >= samples.size()) continue;
        for (std::size_t k = 0; k < 3; ++k) host[k * rows + r] = (*from[k])[i];
        host[3 * rows + r] = 1.0f / (1.0f + std::exp(-samples.scores[i]));  // prediction
        host[4 * rows + r] = static_cast<float>(i * i % 97);                // group
      }
      stream.copy(device.get_ptr(), host.data(), device.get_size_in_bytes());
      const auto part = [&](std::size_t k, const Shape& shape) {
        return make_ref(device.get_ptr() + k * rows, shape, gpu.device());
      };
      metrics.add(gpu, {part(0, {rows, 1}), part(1, {rows, 1}), part(2, {rows}), part(3, {rows, 1}),
                        part(4, {rows, 1})});
      stream.synchronize();  // before the rows go
    });
  }
}

inline MetricValues taken(EvalMetrics& metrics, ResourceManager& resources) {
  const auto values = metrics.take(resources);
  return {values.begin(), values.end()};
}

/// `devices` devices of one process.
inline std::shared_ptr<ResourceManager> test_resources(DeviceType type, std::size_t devices) {
  std::vector<int> ids;
  for (std::size_t id = 0; id < devices; ++id) ids.push_back(static_cast<int>(id));
  return ResourceManager::create({ids}, 1, type);
}

}  // namespace hugectr
