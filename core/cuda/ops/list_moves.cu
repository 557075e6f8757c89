// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <span>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/list_moves.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cuda/primitives/many.cuh"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

struct Listing {
  const std::uint32_t *places, *leaving, *coming;  // the last two may be null
  std::uint32_t *leaves, *comes, *from, *to;
  std::size_t count;

  explicit Listing(const ListMoves& op)
      : places(op.places.ptr<std::uint32_t>()),
        leaving(op.leaving.empty() ? nullptr : op.leaving.ptr<std::uint32_t>()),
        coming(op.coming.empty() ? nullptr : op.coming.ptr<std::uint32_t>()),
        leaves(op.leaves.ptr<std::uint32_t>()),
        comes(op.comes.ptr<std::uint32_t>()),
        from(op.from.ptr<std::uint32_t>()),
        to(op.to.ptr<std::uint32_t>()),
        count(static_cast<std::size_t>(op.count)) {}
};

__global__ void list_moves_kernel(const __grid_constant__ Many<Listing> many) {
  const Listing& list = many.mine();
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < list.count; i += step) {
    const std::uint32_t place = list.places[i];
    const std::uint32_t leaves = list.leaving ? list.leaving[i] : kNoRow;
    const std::uint32_t comes = list.coming ? list.coming[i] : kNoRow;
    list.leaves[i] = leaves;
    list.comes[i] = comes;
    list.from[i] = leaves == kNoRow ? kNoRow : place;
    list.to[i] = comes == kNoRow ? kNoRow : place;
  }
}

void list_all(const OpContext& context, const char* name, std::span<const ListMoves> ops) {
  std::vector<Listing> all;
  for (const ListMoves& op : ops) {
    if (op.count > 0) all.emplace_back(op);
  }
  launch_many<Listing>(context, name, all, dim3(kThreads), &list_moves_kernel,
                       [](const Listing& list) { return grid_for(list.count, kThreads); });
}

void list_moves(const OpContext& context, const ListMoves& op) {
  list_all(context, ListMoves::kName, std::span(&op, 1));
}
void several_list_moves(const OpContext& context, const Several<ListMoves>& several) {
  list_all(context, ListMoves::kSeveralName, several.ops);
}

const OpRegistration<ListMoves> list_moves_cuda{DeviceType::Cuda, &list_moves};
const SeveralRegistration<ListMoves> several_list_moves_cuda{DeviceType::Cuda, &several_list_moves};

}  // namespace
}  // namespace hugectr::cuda
