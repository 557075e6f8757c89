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
  void add(GPUResource& gpu, const EvalRows& rows) override {
    const TensorRef& scores = TakesClasses<Entry>    ? rows.logits
                              : OfPredictions<Entry> ? rows.predictions
                                                     : rows.scores;
    run(gpu.compute_context(), SampleSums<Entry>{.scores = scores,
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
  explicit Metric(std::size_t devices) : samples_(devices, TakesGroups<Entry>) {}
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

template <class Entry>
EvalMetrics::Reported EvalMetrics::make(std::size_t devices, const EvalSubject& subject) const {
  Reported made{.name = Entry::kName};
  if constexpr (SumsBatches<Entry>) {
    made.of_batches = true;
    made.parts = {made.name};
    if (subject.losses.size() > 1) {
      for (const std::string& loss : subject.losses) made.parts.push_back(made.name + "_" + loss);
    }
    made.of_mean.resize(made.parts.size(), true);
  } else {
    constexpr bool kClasses = TakesClasses<Entry>;
    const auto probable = [](const EvalTask& of) {
      return of.prediction != Prediction::Identity && (kClasses || of.has_score);
    };
    const bool any_probable = std::ranges::any_of(subject.tasks, probable);
    for (std::size_t task = 0; task < subject.tasks.size(); ++task) {
      const EvalTask& of = subject.tasks[task];
      if (NeedsProbability<Entry> || kClasses ? !probable(of) : !of.has_score) continue;
      made.tasks.push_back(task);
      made.parts.push_back(subject.tasks.size() == 1 ? made.name : made.name + "_" + of.name);
      made.of_mean.push_back(!OfPositives<Entry> || !any_probable || probable(of));
    }
    HCTR_CHECK(!made.parts.empty(), "solver.metrics: found '", made.name, "', but no loss of the ",
               "model has what it is made of: ",
               kClasses                  ? "the probability of a label, or of classes"
               : NeedsProbability<Entry> ? "the probability of a label"
                                         : "one prediction a label");
    HCTR_CHECK(subject.has_groups || !TakesGroups<Entry>, "solver.metrics: found '", made.name,
               "', but the Input has no group_name: the label whose values are the groups");
  }
  for (std::size_t i = 0; i < made.parts.size(); ++i) {
    made.metrics.push_back(std::make_unique<Metric<Entry>>(devices));
  }
  return made;
}

EvalMetrics::EvalMetrics(const std::vector<std::string>& names, std::size_t devices,
                         const EvalSubject& subject) {
  std::vector<std::string> known;
  for_each_entry<Metrics>([&]<class Entry>(const Entry&) {
    known.emplace_back(Entry::kName);
    if (std::ranges::find(names, known.back()) != names.end()) {
      metrics_.push_back(make<Entry>(devices, subject));
    }
  });
  for (const std::string& name : names) {
    std::string allowed;
    for (const std::string& each : known) allowed += (allowed.empty() ? "'" : ", '") + each + "'";
    HCTR_CHECK(std::ranges::find(known, name) != known.end(), "solver.metrics: found '", name,
               "', allowed: ", allowed);
  }
}

void EvalMetrics::add(GPUResource& gpu, const EvalRows& rows, std::size_t task) {
  for (const Reported& metric : metrics_) {
    for (std::size_t i = 0; i < metric.tasks.size(); ++i) {
      if (metric.tasks[i] == task) metric.metrics[i]->add(gpu, rows);
    }
  }
}

void EvalMetrics::add_batch(const std::vector<double>& losses, double samples) {
  for (const Reported& metric : metrics_) {
    for (std::size_t i = 0; metric.of_batches && i < metric.metrics.size(); ++i) {
      metric.metrics[i]->add_batch(losses.at(i), samples);
    }
  }
}

std::vector<std::pair<std::string, double>> EvalMetrics::take(ResourceManager& resources) {
  std::vector<std::pair<std::string, double>> values;
  for (const Reported& metric : metrics_) {
    const std::size_t place = values.size();
    double sum = 0.0, count = 0.0;
    for (std::size_t i = 0; i < metric.parts.size(); ++i) {
      values.emplace_back(metric.parts[i], metric.metrics[i]->take(resources));
      if (!metric.of_mean[i]) continue;
      sum += values.back().second;
      count += 1.0;
    }
    if (metric.parts.front() == metric.name) continue;
    values.emplace(values.begin() + static_cast<std::ptrdiff_t>(place), metric.name, sum / count);
  }
  return values;
}

}  // namespace hugectr
