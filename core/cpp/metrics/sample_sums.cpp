// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/metrics/sample_sums.hpp"

#include <array>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/metrics/metrics.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {

void check_sample_sums(const char* op, const TensorRef& scores, const TensorRef& labels,
                       const TensorRef& weights, const TensorRef& sums, std::size_t count,
                       bool classes) {
  check_real(op, "scores", scores);
  const bool matrix = scores.shape.size() == 2;
  HCTR_CHECK(matrix && (scores.shape[1] == 1 || (classes && scores.shape[1] > 1)), op,
             ": scores have shape ", to_string(scores.shape), ", must be ",
             classes ? "(batch, n)" : "(batch, 1)");
  check_float(op, "labels", labels, {scores.rows(), 1});
  check_packed_float(op, "weights", weights, {scores.rows()});
  HCTR_CHECK(sums.dtype == TensorScalarType::Float64 && sums.shape == Shape{count}, op,
             ": sums must be float64 of shape ", to_string(Shape{count}), ", found ",
             to_string(sums.dtype), " ", to_string(sums.shape));
}

namespace {

template <class Entry>
void sums_kernel(const OpContext& ctx, const SampleSums<Entry>& op) {
  using Sums = std::array<double, Entry::kSums>;
  const Entry entry = op.entry;
  const TensorRef &scores = op.scores, &labels = op.labels, &weights = op.weights, &sums = op.sums;
  const float* weight = weights.ptr<float>();
  const std::size_t batch = scores.rows(), columns = scores.shape[1];
  const std::size_t piece = samples_per_partial(batch);
  std::vector<Sums> partial(partial_rows(batch));
  parallel_for(*ctx.pool, batch, piece, [&](std::size_t begin, std::size_t end) {
    Sums of_piece{};
    for (std::size_t r = begin; r < end; ++r) {
      if (weight[r] == 0.0f) continue;
      const float* const score = scores.row<float>(r);
      add_sample(
          entry, columns, [score](std::size_t j) { return score[j]; }, *labels.row<float>(r),
          weight[r], of_piece.data());
    }
    partial[begin / piece] = of_piece;
  });
  double* const total = sums.ptr<double>();
  for (const Sums& of_piece : partial) {
    for (std::size_t k = 0; k < of_piece.size(); ++k) total[k] += of_piece[k];
  }
}

template <class Entry>
struct OnCpu {};
template <SumsSamples Entry>
struct OnCpu<Entry> {
  OpRegistration<SampleSums<Entry>> sums{DeviceType::Cpu, &sums_kernel<Entry>};
};
const OfEach<OnCpu, Metrics> on_cpu;

}  // namespace
}  // namespace hugectr
