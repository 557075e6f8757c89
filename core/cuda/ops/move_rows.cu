// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/move_rows.hpp"
#include "core/cuda/device/launch_cluster.cuh"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/primitives/fast_divide.cuh"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 1024, kBlocks = 4;
constexpr int kUnits = 4;                 // of a thread at a time
constexpr unsigned kTaken = 32 * kUnits;  // by a warp at a time

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
//
// Warps take the next units from a counter. Without it those whose rows come sooner get ahead of
// the others, by tables, and the link has to translate addresses that lie anywhere; so all that is
// under way lies in a short stretch of the lists, which ascend.
template <class Unit>
__global__ void __launch_bounds__(kThreads)
    move_rows_kernel(const __grid_constant__ Many<Moving> parts, std::size_t count,
                     unsigned long long* taken) {
  const unsigned lane = threadIdx.x % 32;
  std::size_t first = 0;  // of the part
  unsigned number = 0;
  for (;;) {
    unsigned long long begin = 0;
    if (lane == 0) begin = atomicAdd(taken, static_cast<unsigned long long>(kTaken));
    begin = __shfl_sync(0xFFFFFFFFu, begin, 0);
    if (begin >= count) return;
    Unit next[kUnits]{};
    Unit *place[kUnits]{}, *home[kUnits]{};
    bool comes[kUnits]{};
    // All that comes is asked for before anything is written: no row of one is a row of another,
    // and where one row goes to where the other comes from it is the same thread that does both.
#pragma unroll
    for (int k = 0; k < kUnits; ++k) {
      const std::size_t t = begin + 32 * k + lane;
      if (t >= count) continue;
      while (t >= parts.of(number).end) first = parts.of(number++).end;
      const Moving& part = parts.of(number);
      std::size_t unit;
      const std::size_t i = part.units.divide(t - first, unit), width = part.units_per_row;
      const std::size_t goes = part.leaving ? part.leaving[i] : kNoRow;
      const std::size_t row = part.coming ? part.coming[i] : kNoRow;
      Unit* const rows = static_cast<Unit*>(part.home);
      place[k] = static_cast<Unit*>(part.cache) + part.places[i] * width + unit;
      home[k] = goes != kNoRow ? rows + goes * width + unit : nullptr;
      comes[k] = row != kNoRow;
      if (comes[k]) next[k] = rows[row * width + unit];
    }
#pragma unroll
    for (int k = 0; k < kUnits; ++k) {
      if (home[k]) *home[k] = *place[k];
      if (comes[k]) *place[k] = next[k];
    }
  }
}

template <class Unit>
void move_parts(const OpContext& context, const char* name, std::span<const Moving> all) {
  for (std::size_t at = 0; at < all.size(); at += Many<Moving>::kMost) {
    const auto given = all.subspan(at, std::min(Many<Moving>::kMost, all.size() - at));
    std::vector<Moving> parts(given.begin(), given.end());
    std::size_t count = 0;
    for (Moving& part : parts) part.end = (count += part.end);
    if (count == 0) continue;
    const Scratch taken(context, sizeof(unsigned long long));
    HCTR_TRY(cudaMemsetAsync(taken.data(), 0, taken.size(), native_stream(context)));
    // A quarter of a megabyte under way fills the link; more of it only means more addresses to
    // translate (a block of 256 threads on each of an H200's 132 multiprocessors takes a fifth
    // longer than one on every fourth). Few blocks, and neighbours, leave the rest to the step that
    // runs meanwhile: its products are often one wave of pairs of neighbouring multiprocessors.
    const unsigned blocks = std::min(grid_for(count, kThreads), kBlocks);
    launch_cluster(context, name, blocks, kThreads, &move_rows_kernel<Unit>, Many<Moving>(parts),
                   count, static_cast<unsigned long long*>(taken.data()));
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
