// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/ops/gather_rows.hpp"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

// Rows as runs of Units, whatever they hold. Moves every byte of values in and out once.
template <class Unit>
__global__ void gather_rows_kernel(std::size_t count, FastDivide units,
                                   const std::uint32_t* __restrict__ rows,
                                   const Unit* __restrict__ source, Unit* __restrict__ values,
                                   std::size_t units_per_row) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t t = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < count;
       t += step) {
    std::size_t unit;
    const std::size_t row = rows[units.divide(t, unit)];
    values[t] = source[row * units_per_row + unit];
  }
}

template <class Unit>
void gather(const OpContext& context, const GatherRows& op, std::size_t row_bytes) {
  const std::size_t units = row_bytes / sizeof(Unit), count = op.rows.size() * units;
  launch(context, GatherRows::kName, dim3(grid_for(count, kThreads)), dim3(kThreads), 0,
         &gather_rows_kernel<Unit>, count, FastDivide(units), op.rows.ptr<std::uint32_t>(),
         static_cast<const Unit*>(op.source.data), static_cast<Unit*>(op.values.data), units);
}

void gather_rows(const OpContext& context, const GatherRows& op) {
  const std::size_t bytes = op.source.row_size() * size_of(op.source.dtype);
  const std::uintptr_t places = reinterpret_cast<std::uintptr_t>(op.values.data) |
                                reinterpret_cast<std::uintptr_t>(op.source.data) | bytes;
  if (places % sizeof(uint4) == 0) {
    gather<uint4>(context, op, bytes);
  } else if (places % sizeof(std::uint32_t) == 0) {
    gather<std::uint32_t>(context, op, bytes);
  } else {
    gather<std::uint8_t>(context, op, bytes);
  }
}

const OpRegistration<GatherRows> gather_rows_cuda{DeviceType::Cuda, &gather_rows};

}  // namespace
}  // namespace hugectr::cuda
