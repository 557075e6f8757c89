// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/stamp_rows.hpp"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

// Reads 4 bytes a row and writes as many; unique rows ascend, so that writes of a warp are near.
__global__ void stamp_rows_kernel(std::size_t n, const std::int64_t* count,
                                  const std::uint32_t* __restrict__ rows,
                                  std::uint32_t* __restrict__ stamps, std::uint32_t first,
                                  std::uint32_t stamp) {
  if (count) n = static_cast<std::size_t>(*count);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    const std::uint32_t row = rows[i];
    if (row != kNoRow && row >= first) stamps[row] = stamp;
  }
}

void stamp_rows(const OpContext& context, const StampRows& op) {
  const std::size_t n = op.rows.size();
  launch(context, StampRows::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0,
         &stamp_rows_kernel, n, op.count.empty() ? nullptr : op.count.ptr<std::int64_t>(),
         op.rows.ptr<std::uint32_t>(), op.stamps.ptr<std::uint32_t>(),
         static_cast<std::uint32_t>(op.first), static_cast<std::uint32_t>(op.stamp));
}

const OpRegistration<StampRows> stamp_rows_cuda{DeviceType::Cuda, &stamp_rows};

}  // namespace
}  // namespace hugectr::cuda
