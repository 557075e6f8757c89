// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/metrics/eval_metrics.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "core/cpp/metrics/device_sums.hpp"
#include "core/cpp/metrics/kept_samples.hpp"
#include "core/cpp/metrics/metrics.hpp"
#include "core/cpp/metrics/sample_sums.hpp"

namespace hugectr {
namespace {

/// Of one kind each, see entry.hpp; made for the entries of that kind.
template <class Entry>
class Metric;

template <SumsSamples Entry>
class Metric<Entry> final : public IMetric {
 public:
  explicit Metric(std::size_t devices) : sums_(Entry::kSums, devices) {}
  const char* name() const override { return Entry::kName; }
  void add(GPUResource& gpu, const EvalRows& rows) override {
    run(gpu.compute_context(), SampleSums<Entry>{.scores = rows.scores,
                                                 .labels = rows.labels,
                                                 .weights = rows.weights,
                                                 .sums = sums_.of(gpu),
                                                 .entry = entry_});
  }
  double take(ResourceManager& resources) override {
    return entry_.value(sums_.take(resources).data());
  }

 private:
  Entry entry_;
  DeviceSums sums_;
};

template <SumsBatches Entry>
class Metric<Entry> final : public IMetric {
 public:
  explicit Metric(std::size_t) {}
  const char* name() const override { return Entry::kName; }
  void add_batch(double loss, double samples) override {
    entry_.add_batch(loss, samples, sums_.data());
  }
  double take(ResourceManager&) override {
    const double value = entry_.value(sums_.data());
    sums_ = {};
    return value;
  }

 private:
  Entry entry_;
  std::array<double, Entry::kSums> sums_{};
};

template <KeepsSamples Entry>
class Metric<Entry> final : public IMetric {
 public:
  explicit Metric(std::size_t devices) : samples_(devices) {}
  const char* name() const override { return Entry::kName; }
  void add(GPUResource& gpu, const EvalRows& rows) override { samples_.add(gpu, rows); }
  double take(ResourceManager& resources) override {
    double value = std::numeric_limits<double>::quiet_NaN();
    const SampleArrays samples = samples_.gather(resources);
    if (samples.scores.size() > 0) {
      GPUResource& gpu = resources.get_local_gpu(0);
      if (!value_.allocated()) value_ = metric_tensor<double>(gpu, {1}, "value");
      Entry::value(samples, value_.ref()).run(gpu.compute_context());
      gpu.compute_stream().copy(&value, value_.get_ptr(), sizeof value);
      gpu.compute_stream().synchronize();
    }
    samples_.clear();
    return value;
  }

 private:
  KeptSamples samples_;
  Tensor2<double> value_;
};

}  // namespace

EvalMetrics::EvalMetrics(const std::vector<std::string>& names, std::size_t devices) {
  std::vector<std::string> known;
  for_each_entry<Metrics>([&]<class Entry>(const Entry&) {
    known.emplace_back(Entry::kName);
    if (std::ranges::find(names, known.back()) != names.end()) {
      metrics_.push_back(std::make_unique<Metric<Entry>>(devices));
    }
  });
  for (const std::string& name : names) {
    std::string allowed;
    for (const std::string& each : known) allowed += (allowed.empty() ? "'" : ", '") + each + "'";
    HCTR_CHECK(std::ranges::find(known, name) != known.end(), "solver.metrics: found '", name,
               "', allowed: ", allowed);
  }
}

void EvalMetrics::add(GPUResource& gpu, const EvalRows& rows) {
  for (const auto& metric : metrics_) metric->add(gpu, rows);
}

void EvalMetrics::add_batch(double loss, double samples) {
  for (const auto& metric : metrics_) metric->add_batch(loss, samples);
}

std::vector<std::pair<std::string, double>> EvalMetrics::take(ResourceManager& resources) {
  std::vector<std::pair<std::string, double>> values;
  for (const auto& metric : metrics_) values.emplace_back(metric->name(), metric->take(resources));
  return values;
}

}  // namespace hugectr
