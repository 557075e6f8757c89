// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/position_offsets.hpp"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

struct Positions {
  const std::uint32_t *offsets, *starts;
  std::uint32_t* out;
  std::size_t rows, slots, positions, size;

  explicit Positions(const PositionOffsets& op)
      : offsets(op.row_offsets.ptr<std::uint32_t>()),
        starts(op.starts.ptr<std::uint32_t>()),
        out(op.out.ptr<std::uint32_t>()),
        rows(op.row_offsets.size() - 1),
        slots(op.starts.size() - 1),
        positions(static_cast<std::size_t>(op.positions)),
        size(op.out.size()) {}
  unsigned blocks() const { return grid_for(size, kThreads); }
};

// Moves 4 bytes a slot in and 4 bytes a position out; starts stay in the cache.
__device__ void find_offsets(const Positions& a) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t j = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; j < a.size;
       j += step) {
    a.out[j] = j + 1 == a.size ? a.offsets[a.rows]
                               : position_offset(a.offsets, a.starts, a.slots, a.positions, j);
  }
}

__global__ void position_offsets_kernel(Positions a) { find_offsets(a); }
__global__ void positions_many_kernel(const __grid_constant__ Many<Positions> many) {
  find_offsets(many.mine());
}

void position_offsets(const OpContext& context, const PositionOffsets& op) {
  const Positions args(op);
  launch(context, PositionOffsets::kName, dim3(args.blocks()), dim3(kThreads), 0,
         &position_offsets_kernel, args);
}

void positions_many(const OpContext& context, const Several<PositionOffsets>& several) {
  const std::vector<Positions> all(several.ops.begin(), several.ops.end());
  launch_many<Positions>(context, PositionOffsets::kSeveralName, all, dim3(kThreads),
                         &positions_many_kernel, [](const Positions& a) { return a.blocks(); });
}

const OpRegistration<PositionOffsets> position_offsets_cuda{DeviceType::Cuda, &position_offsets};
const SeveralRegistration<PositionOffsets> several_position_offsets_cuda{DeviceType::Cuda,
                                                                         &positions_many};

}  // namespace
}  // namespace hugectr::cuda
