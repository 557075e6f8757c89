// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/eval_metrics.hpp"

#include <cmath>
#include <cstring>

#include "core/cpp/device/float_values.hpp"
#include "core/cpp/ops/auc.hpp"

namespace hugectr {
namespace {

/// Appends the values of a tensor of any float type, its rows packed.
void append(std::vector<float>& values, const TensorRef& ref, Stream& stream) {
  const std::vector<float> more = float_values(stream, ref);
  values.insert(values.end(), more.begin(), more.end());
}

/// The values of all processes, one after the other.
void gather(IProcessGroup& processes, std::vector<float>& values) {
  const auto* const bytes = reinterpret_cast<const char*>(values.data());
  const auto all = processes.all_gather_any({bytes, bytes + values.size() * sizeof(float)});
  values.clear();
  for (const std::vector<char>& part : all) {
    const std::size_t first = values.size();
    values.resize(first + part.size() / sizeof(float));
    if (!part.empty()) std::memcpy(values.data() + first, part.data(), part.size());
  }
}

}  // namespace

void EvalMetrics::add(GPUResource& gpu, const TensorRef& score, const TensorRef& label,
                      const TensorRef& weight) {
  if (!auc_) return;
  Stream& stream = gpu.compute_stream();
  append(scores_, score, stream);
  append(labels_, label, stream);
  append(weights_, weight, stream);
}

void EvalMetrics::add_loss(double loss, double samples) {
  loss_sum_ += loss * samples;
  loss_samples_ += samples;
}

std::vector<std::pair<std::string, double>> EvalMetrics::take(ResourceManager& resources) {
  std::vector<std::pair<std::string, double>> metrics;
  if (auc_) {
    double auc = std::nan("");
    if (resources.processes()) {
      for (auto* values : {&scores_, &labels_, &weights_}) {
        gather(*resources.processes(), *values);
      }
    }
    if (!scores_.empty()) {
      const std::size_t n = scores_.size();
      OpContext context;  // no stream: runs at once, on host memory
      context.pool = &resources.pool();
      context.device = {DeviceType::Cpu, 0};
      run(context, Auc{.scores = make_ref(scores_.data(), {n}),
                       .labels = make_ref(labels_.data(), {n}),
                       .weights = make_ref(weights_.data(), {n}),
                       .auc = make_ref(&auc, {1})});
    }
    metrics.emplace_back("AUC", auc);
  }
  if (average_loss_) {
    metrics.emplace_back("AverageLoss",
                         loss_samples_ > 0 ? loss_sum_ / loss_samples_ : std::nan(""));
  }
  clear();
  return metrics;
}

void EvalMetrics::clear() {
  scores_.clear();
  labels_.clear();
  weights_.clear();
  loss_sum_ = loss_samples_ = 0.0;
}

}  // namespace hugectr
