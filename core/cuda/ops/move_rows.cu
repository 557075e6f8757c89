// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/move_rows.hpp"
#include "core/cuda/device/launch_over_link.cuh"
#include "core/cuda/primitives/fast_divide.cuh"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

// A part of a table's rows.
struct Moving {
  const std::uint32_t *places, *leaving, *coming;  // the last two may be null
  void *cache, *home;
  FastDivide units;
  std::size_t units_per_row;
  std::size_t end;  // behind its last unit and those of all parts before
};

// A unit of a row: out of its place and home, then from home into the place. Neighbouring threads
// have neighbouring units, so that the link sees whole rows, and some rows go while others come.
// All blocks are in the same part at about the same time, and come to the next one together: a link
// whose addresses are those of one table at a time translates fewer of them anew.
template <class Unit>
__global__ void move_rows_kernel(const __grid_constant__ Many<Moving> parts, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  std::size_t first = 0;
  unsigned number = 0;
  for (std::size_t t = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < count;
       t += step) {
    while (t >= parts.of(number).end) first = parts.of(number++).end;
    const Moving& part = parts.of(number);
    std::size_t unit;
    const std::size_t i = part.units.divide(t - first, unit);
    const std::size_t goes = part.leaving ? part.leaving[i] : kNoRow;
    const std::size_t comes = part.coming ? part.coming[i] : kNoRow;
    Unit* const home = static_cast<Unit*>(part.home);
    Unit* const place = static_cast<Unit*>(part.cache) + part.places[i] * part.units_per_row + unit;
    Unit next{};
    if (comes != kNoRow) next = home[comes * part.units_per_row + unit];
    if (goes != kNoRow) home[goes * part.units_per_row + unit] = *place;
    if (comes != kNoRow) *place = next;
  }
}

template <class Unit>
void move_parts(const OpContext& context, const char* name, std::span<const Moving> all) {
  for (std::size_t at = 0; at < all.size(); at += Many<Moving>::kMost) {
    const auto given = all.subspan(at, std::min(Many<Moving>::kMost, all.size() - at));
    std::vector<Moving> parts(given.begin(), given.end());
    std::size_t count = 0;
    for (Moving& part : parts) part.end = (count += part.end);
    // A block a multiprocessor keeps the link as busy as many do, and leaves the rest to the step
    // that runs meanwhile.
    const unsigned blocks = std::min(grid_for(count, kThreads), processor_count());
    launch_over_link(context, name, dim3(blocks), dim3(kThreads), &move_rows_kernel<Unit>,
                     Many<Moving>(parts), count);
  }
}

// The widest unit in which an array's rows can be moved: 16 bytes, 4 or 1.
std::size_t unit_of(const TensorRef& cache, const TensorRef& home, std::size_t row_bytes) {
  const std::uintptr_t places = reinterpret_cast<std::uintptr_t>(cache.data) |
                                reinterpret_cast<std::uintptr_t>(home.data) | row_bytes;
  if (places % sizeof(uint4) == 0) return sizeof(uint4);
  return places % sizeof(std::uint32_t) == 0 ? sizeof(std::uint32_t) : 1;
}

void move_all(const OpContext& context, const char* name, std::span<const MoveRows> ops) {
  std::vector<Moving> wide, words, bytes;
  for (const MoveRows& op : ops) {
    for (std::size_t a = 0; a < op.cache.size(); ++a) {
      const TensorRef &cache = op.cache[a], &home = op.home[a];
      const std::size_t row_bytes = cache.row_size() * size_of(cache.dtype);
      const std::size_t unit = unit_of(cache, home, row_bytes), units = row_bytes / unit;
      auto& parts = unit == sizeof(uint4) ? wide : unit == sizeof(std::uint32_t) ? words : bytes;
      parts.push_back({.places = op.places.ptr<std::uint32_t>(),
                       .leaving = op.leaving.empty() ? nullptr : op.leaving.ptr<std::uint32_t>(),
                       .coming = op.coming.empty() ? nullptr : op.coming.ptr<std::uint32_t>(),
                       .cache = cache.data,
                       .home = home.data,
                       .units = FastDivide(units),
                       .units_per_row = units,
                       .end = static_cast<std::size_t>(op.count) * units});
    }
  }
  move_parts<uint4>(context, name, wide);
  move_parts<std::uint32_t>(context, name, words);
  move_parts<std::uint8_t>(context, name, bytes);
}

void move_rows(const OpContext& context, const MoveRows& op) {
  move_all(context, MoveRows::kName, std::span(&op, 1));
}
void several_move_rows(const OpContext& context, const Several<MoveRows>& several) {
  move_all(context, MoveRows::kSeveralName, several.ops);
}

const OpRegistration<MoveRows> move_rows_cuda{DeviceType::Cuda, &move_rows};
const SeveralRegistration<MoveRows> several_move_rows_cuda{DeviceType::Cuda, &several_move_rows};

}  // namespace
}  // namespace hugectr::cuda
