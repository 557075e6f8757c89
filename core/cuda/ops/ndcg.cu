// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/ndcg.hpp"
#include "core/cuda/primitives/sorted_runs.cuh"

// The gains are sorted by score, and once more by themselves; the thread at the head of equal ones
// goes through them.
namespace hugectr::cuda {
namespace {

constexpr unsigned kSampleThreads = 256;
constexpr std::uint32_t kNobody = 0xffffffffu;  // samples without weight: the end of the list

// Keys fall as what is ranked by rises. A score that is not a number makes the gain so.
__global__ void __launch_bounds__(kSampleThreads)
    gains_kernel(const float* scores, const float* labels, const float* weights, bool by_gain,
                 std::size_t n, std::uint32_t* keys, float* gains) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kSampleThreads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * kSampleThreads + threadIdx.x; i < n;
       i += step) {
    const float score = scores[i], weight = weights[i];
    const bool counts = weight != 0.0f;
    const float gain = counts ? weight * labels[i] : 0.0f;
    keys[i] = counts ? ~ordered_bits(by_gain ? gain : score) : kNobody;
    gains[i] = counts && isnan(score) ? score : gain;
  }
}

struct RankedGains {
  const std::uint32_t* keys;
  const float* gains;
  std::size_t n;

  __device__ bool begins(std::size_t i) const {
    return keys[i] != kNobody && (i == 0 || keys[i] != keys[i - 1]);
  }
  __device__ void add(std::size_t i, double& sum, double&) const {
    const std::size_t first = i;
    const std::uint32_t key = keys[i];
    double gain = 0.0, discount = 0.0;
    for (; i < n && keys[i] == key; ++i) {
      gain += static_cast<double>(gains[i]);
      discount += 1.0 / log2(static_cast<double>(i) + 2.0);
    }
    sum += gain / static_cast<double>(i - first) * discount;
  }
};

__global__ void ratio_kernel(const double* of_scores, const double* of_gains, double* ndcg) {
  *ndcg = *of_gains == 0.0 ? nan("") : *of_scores / *of_gains;
}

// Floor: two sorts, four passes of 16 bytes a sample each.
void ndcg_kernel(const OpContext& context, const Ndcg& op) {
  const std::size_t n = op.scores.size();
  const Scratch sums(context, 4 * sizeof(double));
  auto* const totals = static_cast<double*>(sums.data());
  for (const bool by_gain : {false, true}) {
    SortedPairs<std::uint32_t> gains(context, n);
    if (n > 0) {
      launch(context, "ndcg gains", dim3(grid_for(n, kSampleThreads)), dim3(kSampleThreads), 0,
             &gains_kernel, op.scores.ptr<float>(), op.labels.ptr<float>(), op.weights.ptr<float>(),
             by_gain, n, gains.keys(), gains.values());
      gains.sort(context);
    }
    sum_runs(context, "ndcg sums", RankedGains{gains.keys(), gains.values(), n}, n,
             totals + (by_gain ? 2 : 0));
  }
  launch(context, op.kName, dim3(1), dim3(1), 0, &ratio_kernel, totals, totals + 2,
         op.ndcg.ptr<double>());
}

const OpRegistration<Ndcg> ndcg_cuda{DeviceType::Cuda, &ndcg_kernel};

}  // namespace
}  // namespace hugectr::cuda
