// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/scatter_rows.hpp"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

// Rows as runs of Units, whatever they hold. Moves every byte of values in and out once.
template <class Unit>
__global__ void scatter_rows_kernel(std::size_t count, FastDivide units,
                                    const std::uint32_t* __restrict__ rows,
                                    const Unit* __restrict__ values, Unit* __restrict__ target,
                                    std::size_t units_per_row) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t t = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < count;
       t += step) {
    std::size_t unit;
    const std::uint32_t row = rows[units.divide(t, unit)];
    if (row != kNoRow) target[row * units_per_row + unit] = values[t];
  }
}

template <class Unit>
void scatter(const OpContext& context, const ScatterRows& op, std::size_t row_bytes) {
  const std::size_t units = row_bytes / sizeof(Unit), count = op.rows.size() * units;
  launch(context, ScatterRows::kName, dim3(grid_for(count, kThreads)), dim3(kThreads), 0,
         &scatter_rows_kernel<Unit>, count, FastDivide(units), op.rows.ptr<std::uint32_t>(),
         static_cast<const Unit*>(op.values.data), static_cast<Unit*>(op.target.data), units);
}

void scatter_rows(const OpContext& context, const ScatterRows& op) {
  const std::size_t bytes = op.target.row_size() * size_of(op.target.dtype);
  const std::uintptr_t places = reinterpret_cast<std::uintptr_t>(op.values.data) |
                                reinterpret_cast<std::uintptr_t>(op.target.data) | bytes;
  if (places % sizeof(uint4) == 0) {
    scatter<uint4>(context, op, bytes);
  } else if (places % sizeof(std::uint32_t) == 0) {
    scatter<std::uint32_t>(context, op, bytes);
  } else {
    scatter<std::uint8_t>(context, op, bytes);
  }
}

const OpRegistration<ScatterRows> scatter_rows_cuda{DeviceType::Cuda, &scatter_rows};

}  // namespace
}  // namespace hugectr::cuda
