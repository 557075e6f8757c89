// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/ndcg.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "core/cpp/ops/loops/check_tensor.hpp"

namespace hugectr {

void Ndcg::check() const {
  check_packed_float(kName, "scores", scores, {scores.size()});
  check_packed_float(kName, "labels", labels, scores.shape);
  check_packed_float(kName, "weights", weights, scores.shape);
  HCTR_CHECK(ndcg.dtype == TensorScalarType::Float64 && ndcg.size() == 1, kName,
             ": ndcg must hold one float64, found ", to_string(ndcg.dtype), " ",
             to_string(ndcg.shape));
}

namespace {

using RankedGain = std::pair<float, double>;  // what it is ranked by, and the gain

/// Gains by descending rank, each times the mean discount of the places that its equals have.
double discounted(std::vector<RankedGain>& gains) {
  std::ranges::sort(gains, std::greater<>());
  double total = 0.0;
  for (std::size_t i = 0; i < gains.size();) {
    const std::size_t first = i;
    double gain = 0.0, discount = 0.0;
    for (; i < gains.size() && gains[i].first == gains[first].first; ++i) {
      gain += gains[i].second;
      discount += 1.0 / std::log2(static_cast<double>(i) + 2.0);
    }
    total += gain / static_cast<double>(i - first) * discount;
  }
  return total;
}

void ndcg_kernel(const OpContext&, const Ndcg& op) {
  const float* scores = op.scores.ptr<float>();
  const float* labels = op.labels.ptr<float>();
  const float* weights = op.weights.ptr<float>();
  double& result = *op.ndcg.ptr<double>();
  result = std::numeric_limits<double>::quiet_NaN();
  std::vector<RankedGain> by_score, by_gain;
  for (std::size_t i = 0; i < op.scores.size(); ++i) {
    if (weights[i] == 0.0f) continue;
    if (std::isnan(scores[i])) return;
    const float gain = weights[i] * labels[i];
    by_score.emplace_back(scores[i], gain);
    by_gain.emplace_back(gain, gain);
  }
  const double best = discounted(by_gain);
  if (best != 0.0) result = discounted(by_score) / best;
}

const OpRegistration<Ndcg> ndcg_cpu{DeviceType::Cpu, &ndcg_kernel};

}  // namespace
}  // namespace hugectr
