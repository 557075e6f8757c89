// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/move_rows.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

// A unit of a row: out of its place and home, then from home into the place. Neighbouring threads
// have neighbouring units, so that the link sees whole rows, and some rows go while others come.
template <class Unit>
__global__ void move_rows_kernel(std::size_t count, FastDivide units,
                                 const std::uint32_t* __restrict__ places,
                                 const std::uint32_t* __restrict__ leaving,
                                 const std::uint32_t* __restrict__ coming, Unit* cache, Unit* home,
                                 std::size_t units_per_row) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t t = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < count;
       t += step) {
    std::size_t unit;
    const std::size_t i = units.divide(t, unit);
    const std::size_t goes = leaving ? leaving[i] : kNoRow, comes = coming ? coming[i] : kNoRow;
    Unit* const place = cache + places[i] * units_per_row + unit;
    Unit next{};
    if (comes != kNoRow) next = home[comes * units_per_row + unit];
    if (goes != kNoRow) home[goes * units_per_row + unit] = *place;
    if (comes != kNoRow) *place = next;
  }
}

template <class Unit>
void move_part(const OpContext& context, const MoveRows& op, const TensorRef& cache,
               const TensorRef& home, std::size_t row_bytes) {
  const std::size_t units = row_bytes / sizeof(Unit);
  const std::size_t count = static_cast<std::size_t>(op.count) * units;
  // A block a multiprocessor keeps the link as busy as many do, and leaves the rest to the step
  // that runs meanwhile.
  const unsigned blocks = std::min(grid_for(count, kThreads), processor_count());
  launch(context, MoveRows::kName, dim3(blocks), dim3(kThreads), 0, &move_rows_kernel<Unit>, count,
         FastDivide(units), op.places.ptr<std::uint32_t>(),
         op.leaving.empty() ? nullptr : op.leaving.ptr<std::uint32_t>(),
         op.coming.empty() ? nullptr : op.coming.ptr<std::uint32_t>(),
         static_cast<Unit*>(cache.data), static_cast<Unit*>(home.data), units);
}

void move_rows(const OpContext& context, const MoveRows& op) {
  for (std::size_t a = 0; a < op.cache.size(); ++a) {
    const TensorRef &cache = op.cache[a], &home = op.home[a];
    const std::size_t bytes = cache.row_size() * size_of(cache.dtype);
    const std::uintptr_t places = reinterpret_cast<std::uintptr_t>(cache.data) |
                                  reinterpret_cast<std::uintptr_t>(home.data) | bytes;
    if (places % sizeof(uint4) == 0) {
      move_part<uint4>(context, op, cache, home, bytes);
    } else if (places % sizeof(std::uint32_t) == 0) {
      move_part<std::uint32_t>(context, op, cache, home, bytes);
    } else {
      move_part<std::uint8_t>(context, op, cache, home, bytes);
    }
  }
}

const OpRegistration<MoveRows> move_rows_cuda{DeviceType::Cuda, &move_rows};
// Tables one after the other: a link whose addresses are those of one table at a time translates
// fewer of them anew, and a launch is short beside what it moves.
const SeveralRegistration<MoveRows> several_move_rows_cuda{DeviceType::Cuda};

}  // namespace
}  // namespace hugectr::cuda
