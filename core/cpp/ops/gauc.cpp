// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/gauc.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "core/cpp/ops/loops/check_tensor.hpp"

namespace hugectr {

void Gauc::check() const {
  check_packed_float(kName, "scores", scores, {scores.size()});
  check_packed_float(kName, "labels", labels, scores.shape);
  check_packed_float(kName, "weights", weights, scores.shape);
  check_packed_float(kName, "groups", groups, scores.shape);
  HCTR_CHECK(gauc.dtype == TensorScalarType::Float64 && gauc.size() == 1, kName,
             ": gauc must hold one float64, found ", to_string(gauc.dtype), " ",
             to_string(gauc.shape));
}

namespace {

struct GroupedSample {
  float group, score;
  double positive, negative;  // its weight, in that of its class
  bool operator<(const GroupedSample& other) const {
    return std::tie(group, score) < std::tie(other.group, other.score);
  }
};

/// Wins of positives over negatives within a group, ties counted half, and the group's weights.
struct GroupArea {
  double wins = 0.0, positives = 0.0, negatives = 0.0;
};

GroupArea area_of_group(const std::vector<GroupedSample>& samples, std::size_t& i) {
  GroupArea area;
  const float group = samples[i].group;
  while (i < samples.size() && samples[i].group == group) {
    const float score = samples[i].score;
    double positives = 0.0, negatives = 0.0;
    for (; i < samples.size() && samples[i].group == group && samples[i].score == score; ++i) {
      positives += samples[i].positive;
      negatives += samples[i].negative;
    }
    area.wins += positives * (area.negatives + 0.5 * negatives);
    area.positives += positives;
    area.negatives += negatives;
  }
  return area;
}

void gauc_kernel(const OpContext&, const Gauc& op) {
  const float* weights = op.weights.ptr<float>();
  double& result = *op.gauc.ptr<double>();
  result = std::numeric_limits<double>::quiet_NaN();
  std::vector<GroupedSample> samples;
  for (std::size_t i = 0; i < op.scores.size(); ++i) {
    if (weights[i] == 0.0f) continue;
    const float score = op.scores.ptr<float>()[i];
    if (std::isnan(score)) return;
    const bool positive = op.labels.ptr<float>()[i] > 0.5f;
    const auto weight = static_cast<double>(weights[i]);
    samples.push_back(
        {op.groups.ptr<float>()[i], score, positive ? weight : 0.0, positive ? 0.0 : weight});
  }
  std::ranges::sort(samples, [](const auto& a, const auto& b) { return a < b; });
  double sum = 0.0, weight = 0.0;
  for (std::size_t i = 0; i < samples.size();) {
    const GroupArea area = area_of_group(samples, i);
    if (area.positives <= 0.0 || area.negatives <= 0.0) continue;
    const double size = area.positives + area.negatives;
    sum += size * (area.wins / (area.positives * area.negatives));
    weight += size;
  }
  if (weight > 0.0) result = sum / weight;
}

const OpRegistration<Gauc> gauc_cpu{DeviceType::Cpu, &gauc_kernel};

}  // namespace
}  // namespace hugectr
