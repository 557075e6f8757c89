// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/bag_offsets.hpp"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

struct Bags {
  const void* offsets;
  std::uint32_t* bags;
  std::int64_t* wrong;
  std::int64_t first, last;
  std::uint64_t count;
  bool wide;

  explicit Bags(const BagOffsets& op)
      : offsets(op.offsets.data),
        bags(op.bags.ptr<std::uint32_t>()),
        wrong(op.wrong.ptr<std::int64_t>()),
        first(op.first),
        last(op.last),
        count(op.bags.size()),
        wide(op.offsets.dtype == TensorScalarType::Int64) {}
  unsigned blocks() const { return grid_for(count, kThreads); }
};

template <class Offset>
__device__ void take(const Bags& a) {
  const auto* __restrict__ offsets = static_cast<const Offset*>(a.offsets);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t b = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; b < a.count;
       b += step) {
    a.bags[b] = offset_within(offsets[b], a.first, a.last);
    // Whoever writes writes the same.
    if (offset_is_wrong(offsets, b, a.count - 1, a.first, a.last)) *a.wrong = 1;
  }
}

__device__ void take_any(const Bags& a) { a.wide ? take<std::int64_t>(a) : take<std::int32_t>(a); }

__global__ void bag_offsets_kernel(Bags a) { take_any(a); }
__global__ void bag_offsets_many_kernel(const __grid_constant__ Many<Bags> many) {
  take_any(many.mine());
}

void bag_offsets(const OpContext& context, const BagOffsets& op) {
  const Bags args(op);
  launch(context, BagOffsets::kName, dim3(args.blocks()), dim3(kThreads), 0, &bag_offsets_kernel,
         args);
}

void bag_offsets_many(const OpContext& context, const Several<BagOffsets>& several) {
  const std::vector<Bags> all(several.ops.begin(), several.ops.end());
  launch_many<Bags>(context, BagOffsets::kSeveralName, all, dim3(kThreads),
                    &bag_offsets_many_kernel, [](const Bags& a) { return a.blocks(); });
}

const OpRegistration<BagOffsets> bag_offsets_cuda{DeviceType::Cuda, &bag_offsets};
const SeveralRegistration<BagOffsets> several_bag_offsets_cuda{DeviceType::Cuda, &bag_offsets_many};

}  // namespace
}  // namespace hugectr::cuda
