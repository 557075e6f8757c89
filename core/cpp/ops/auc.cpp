// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/auc.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/cpp/ops/loops/check_tensor.hpp"

namespace hugectr {

void Auc::check() const {
  check_packed_float(kName, "scores", scores, {scores.size()});
  check_packed_float(kName, "labels", labels, scores.shape);
  check_packed_float(kName, "weights", weights, scores.shape);
  HCTR_CHECK(auc.dtype == TensorScalarType::Float64 && auc.size() == 1, kName,
             ": auc must hold one float64, found ", to_string(auc.dtype), " ",
             to_string(auc.shape));
}

namespace {

// Unsigned numbers in the order of the floats; -0 and 0 are one score.
std::uint32_t ordered_bits(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// A sample: its score's order above, its weight below, negative for negatives.
using Sample = std::uint64_t;

Sample make_sample(float score, bool positive, float weight) {
  const auto low = std::bit_cast<std::uint32_t>(positive ? weight : -weight);
  return (static_cast<Sample>(ordered_bits(score)) << 32) | low;
}

float signed_weight(Sample sample) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(sample));
}

// Stable radix sort by score, three digits of 11 bits.
void sort_by_score(std::vector<Sample>& samples) {
  constexpr int kDigitBits = 11;
  constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
  std::vector<Sample> sorted(samples.size());
  for (int shift = 32; shift < 64; shift += kDigitBits) {
    std::array<std::size_t, kDigits> position{};
    for (const Sample sample : samples) ++position[(sample >> shift) & (kDigits - 1)];
    std::size_t sum = 0;
    for (std::size_t& p : position) {
      const std::size_t count = p;
      p = sum;
      sum += count;
    }
    for (const Sample sample : samples) {
      sorted[position[(sample >> shift) & (kDigits - 1)]++] = sample;
    }
    samples.swap(sorted);
  }
}

double area(const std::vector<Sample>& samples) {
  double positives = 0.0, negatives = 0.0, wins = 0.0;
  for (std::size_t i = 0; i < samples.size();) {
    const std::uint64_t score = samples[i] >> 32;
    double tied_positives = 0.0, tied_negatives = 0.0;
    for (; i < samples.size() && (samples[i] >> 32) == score; ++i) {
      const auto weight = static_cast<double>(signed_weight(samples[i]));
      (weight > 0.0 ? tied_positives : tied_negatives) += std::fabs(weight);
    }
    wins += tied_positives * (negatives + 0.5 * tied_negatives);
    positives += tied_positives;
    negatives += tied_negatives;
  }
  if (positives <= 0.0 || negatives <= 0.0) return std::numeric_limits<double>::quiet_NaN();
  return wins / (positives * negatives);
}

void auc_kernel(const OpContext&, const Auc& op) {
  const float* scores = op.scores.ptr<float>();
  const float* labels = op.labels.ptr<float>();
  const float* weights = op.weights.ptr<float>();
  double& result = *op.auc.ptr<double>();
  std::vector<Sample> samples;
  samples.reserve(op.scores.size());
  for (std::size_t i = 0; i < op.scores.size(); ++i) {
    if (weights[i] == 0.0f) continue;
    if (std::isnan(scores[i])) {
      result = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    samples.push_back(make_sample(scores[i], labels[i] > 0.5f, weights[i]));
  }
  sort_by_score(samples);
  result = area(samples);
}

const OpRegistration<Auc> auc_cpu{DeviceType::Cpu, &auc_kernel};

}  // namespace
}  // namespace hugectr
