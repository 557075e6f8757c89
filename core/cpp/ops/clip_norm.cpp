// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/clip_norm.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"
#include "core/cpp/ops/loops/run_blocks.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kNormGrain = 512;  // runs of a piece

double square_sum(const float* __restrict x, std::size_t n) {
  constexpr std::size_t kLanes = 8;  // so that the loop is not one chain of additions
  double sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(x[i + lane]);
      sums[lane] += value * value;
    }
  }
  for (; i < n; ++i) sums[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return std::accumulate(sums, sums + kLanes, 0.0);
}

// Sums of pieces of `grain` out of n, added in their order.
template <class Piece>
double sum_of_pieces(ThreadPool& pool, std::size_t n, std::size_t grain, const Piece& piece) {
  std::vector<double> sums((n + grain - 1) / grain);
  parallel_for(pool, n, grain, [&](std::size_t begin, std::size_t end) {
    sums[begin / grain] = piece(begin, end);
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void square_sum_kernel(const OpContext& context, const SquareSum& op) {
  const float* x = op.x.ptr<float>();
  *op.sum.ptr<double>() = sum_of_pieces(
      *context.pool, op.x.size(), kSpanElements,
      [&](std::size_t begin, std::size_t end) { return square_sum(x + begin, end - begin); });
}

double square_sum_of_runs(const RowSquareSum& op, std::size_t begin, std::size_t end) {
  const std::size_t d = op.gradient.shape[2];
  RunBlocks blocks(op.sorted_buckets, op.gradient, op.scale, op.run_offsets, begin, end);
  double total = 0.0;
  for (std::size_t block = begin; block < end; block += RunBlocks::kRuns) {
    const std::size_t block_end = std::min(end, block + RunBlocks::kRuns);
    const float* g = blocks.sums(block, block_end, 1.0f);
    for (std::size_t run = block; run < block_end; ++run, g += d) total += square_sum(g, d);
  }
  return total;
}

void row_square_sum_kernel(const OpContext& context, const RowSquareSum& op) {
  const auto runs = static_cast<std::size_t>(*op.run_count.ptr<std::int64_t>());
  *op.sum.ptr<double>() += sum_of_pieces(
      *context.pool, runs, kNormGrain,
      [&](std::size_t begin, std::size_t end) { return square_sum_of_runs(op, begin, end); });
}

void clip_norm_kernel(const OpContext&, const ClipNorm& op) {
  float& unscale = *op.unscale.ptr<float>();
  unscale = clipped_unscale(op.squares.ptr<double>(), op.squares.size(), op.clip_norm,
                            op.scaled ? unscale : 1.0f);
}

const OpRegistration<SquareSum> square_sum_cpu{DeviceType::Cpu, &square_sum_kernel};
const OpRegistration<RowSquareSum> row_square_sum_cpu{DeviceType::Cpu, &row_square_sum_kernel};
const OpRegistration<ClipNorm> clip_norm_cpu{DeviceType::Cpu, &clip_norm_kernel};

}  // namespace

void SquareSum::check() const {
  check_packed_float(kName, "x", x, {x.size()});
  check_array(kName, "sum", sum, TensorScalarType::Float64, 1);
}

void RowSquareSum::check() const {
  check_real(kName, "gradient", gradient);
  HCTR_CHECK(gradient.shape.size() == 3 && gradient.shape[2] <= kMaxRunVecSize, kName,
             ": gradient has shape ", to_string(gradient.shape),
             ", must be (samples, slots, d) with d at most ", kMaxRunVecSize);
  check_array(kName, "run_count", run_count, TensorScalarType::Int64, 1);
  check_array(kName, "sum", sum, TensorScalarType::Float64, 1);
  if (!scale.empty()) {
    check_array(kName, "scale", scale, TensorScalarType::Float32,
                gradient.shape[0] * gradient.shape[1]);
  }
}

void ClipNorm::check() const {
  HCTR_CHECK(clip_norm > 0.0, kName, ": clip_norm is ", clip_norm, ", must be positive");
  check_array(kName, "squares", squares, TensorScalarType::Float64, squares.size());
  check_packed_float(kName, "unscale", unscale, {1});
}

}  // namespace hugectr
