// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/score_rows.hpp"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

// Reads 4 + 8 bytes a row and writes 8; unique rows ascend, so that those of a warp are near. Most
// warps admit nobody: the count of those that do goes to memory once a warp.
__global__ void score_rows_kernel(std::size_t n, const std::int64_t* count, const std::int64_t* at,
                                  const std::uint32_t* __restrict__ rows,
                                  std::uint64_t* __restrict__ scores,
                                  std::uint32_t* __restrict__ candidates,
                                  unsigned long long* admitted, UseRule rule, bool timed) {
  const auto used = static_cast<std::size_t>(*count);
  const auto now = static_cast<std::uint64_t>(*at);
  if (!candidates) n = used;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  unsigned own = 0;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    std::uint32_t candidate = kNoRow;
    const std::uint32_t row = i < used ? rows[i] : kNoRow;
    if (row != kNoRow) {
      const std::uint64_t before = scores[row];
      const std::uint64_t after = used_score(before, timed ? score_step(before) : now, rule);
      scores[row] = after;
      own += score_admitted(after) && !score_admitted(before) ? 1 : 0;
      if (!score_admitted(after)) candidate = row;
    }
    if (candidates) candidates[i] = candidate;
  }
  own = __reduce_add_sync(0xFFFFFFFFu, own);
  if (threadIdx.x % 32 == 0 && own > 0) atomicAdd(admitted, own);
}

__global__ void clear_scores_kernel(std::size_t n, const std::uint32_t* __restrict__ rows,
                                    std::uint64_t* __restrict__ scores) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    scores[rows[i]] = 0;
  }
}

void score_rows(const OpContext& context, const ScoreRows& op) {
  const std::size_t n = op.rows.size();
  launch(context, ScoreRows::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0,
         &score_rows_kernel, n, op.count.ptr<std::int64_t>(), op.step.ptr<std::int64_t>(),
         op.rows.ptr<std::uint32_t>(), op.scores.ptr<std::uint64_t>(),
         op.candidates.empty() ? nullptr : op.candidates.ptr<std::uint32_t>(),
         reinterpret_cast<unsigned long long*>(op.admitted.ptr<std::int64_t>()), op.rule(),
         op.timed);
}

void clear_scores(const OpContext& context, const ClearScores& op) {
  const std::size_t n = op.rows.size();
  launch(context, ClearScores::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0,
         &clear_scores_kernel, n, op.rows.ptr<std::uint32_t>(), op.scores.ptr<std::uint64_t>());
}

const OpRegistration<ScoreRows> score_rows_cuda{DeviceType::Cuda, &score_rows};
const OpRegistration<ClearScores> clear_scores_cuda{DeviceType::Cuda, &clear_scores};

}  // namespace
}  // namespace hugectr::cuda
