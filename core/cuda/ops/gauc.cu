// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/gauc.hpp"
#include "core/cuda/primitives/sorted_runs.cuh"

// The samples are sorted by group, then by score. The thread at the head of a group goes through
// it: groups are small beside the whole.
namespace hugectr::cuda {
namespace {

constexpr unsigned kSampleThreads = 256;
constexpr std::uint64_t kNobody = ~std::uint64_t{0};  // samples without weight

// A weight has the sign of its class; a score that is not a number makes it not a number.
__global__ void __launch_bounds__(kSampleThreads)
    grouped_samples_kernel(const float* scores, const float* labels, const float* weights,
                           const float* groups, std::size_t n, std::uint64_t* keys, float* values) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kSampleThreads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * kSampleThreads + threadIdx.x; i < n;
       i += step) {
    const float score = scores[i], weight = weights[i];
    const bool counts = weight != 0.0f;
    const auto group = static_cast<std::uint64_t>(ordered_bits(groups[i]));
    keys[i] = counts ? group << 32 | ordered_bits(score) : kNobody;
    const float signed_weight = labels[i] > 0.5f ? weight : -weight;
    values[i] = !counts ? 0.0f : (isnan(score) ? score : signed_weight);
  }
}

struct Groups {
  const std::uint64_t* keys;
  const float* values;
  std::size_t n;

  __device__ std::uint64_t group(std::size_t i) const { return keys[i] >> 32; }
  __device__ bool begins(std::size_t i) const {
    return keys[i] != kNobody && (i == 0 || group(i) != group(i - 1));
  }
  // sum += size * auc, weight += size
  __device__ void add(std::size_t i, double& sum, double& weight) const {
    const std::uint64_t own = group(i);
    double wins = 0.0, positives = 0.0, negatives = 0.0;
    while (i < n && keys[i] != kNobody && group(i) == own) {
      const std::uint64_t key = keys[i];
      double tied_positives = 0.0, tied_negatives = 0.0;
      for (; i < n && keys[i] == key; ++i) {
        const auto value = static_cast<double>(values[i]);
        (value > 0.0 ? tied_positives : tied_negatives) += fabs(value);
      }
      wins += tied_positives * (negatives + 0.5 * tied_negatives);
      positives += tied_positives;
      negatives += tied_negatives;
    }
    if (positives <= 0.0 && negatives >= 0.0) return;
    if (negatives <= 0.0) return;
    const double size = positives + negatives;
    sum += size * (wins / (positives * negatives));
    weight += size;
  }
};

__global__ void gauc_kernel_end(const double* totals, double* gauc) {
  *gauc = totals[1] <= 0.0 ? nan("") : totals[0] / totals[1];
}

// Floor: the sort, eight passes of 24 bytes a sample.
void gauc_kernel(const OpContext& context, const Gauc& op) {
  const std::size_t n = op.scores.size();
  const Scratch sums(context, 2 * sizeof(double));
  auto* const totals = static_cast<double*>(sums.data());
  SortedPairs<std::uint64_t> samples(context, n);
  if (n > 0) {
    launch(context, "gauc samples", dim3(grid_for(n, kSampleThreads)), dim3(kSampleThreads), 0,
           &grouped_samples_kernel, op.scores.ptr<float>(), op.labels.ptr<float>(),
           op.weights.ptr<float>(), op.groups.ptr<float>(), n, samples.keys(), samples.values());
    samples.sort(context);
  }
  sum_runs(context, "gauc groups", Groups{samples.keys(), samples.values(), n}, n, totals);
  launch(context, op.kName, dim3(1), dim3(1), 0, &gauc_kernel_end, totals, op.gauc.ptr<double>());
}

const OpRegistration<Gauc> gauc_cuda{DeviceType::Cuda, &gauc_kernel};

}  // namespace
}  // namespace hugectr::cuda
