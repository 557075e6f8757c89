// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/embedding_reorder.hpp"
#include "core/cpp/ops/filter_keys.hpp"
#include "core/cuda/primitives/many.cuh"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

// Where the vector of a (sample, slot) lies in the blocks of the devices.
struct Blocks {
  std::size_t samples, d;
  FastDivide devices;
  std::size_t device_count, slots_each, larger;  // devices below `larger` have one slot more

  __device__ std::size_t vector(std::size_t sample, std::size_t slot) const {
    std::size_t r;
    const std::size_t local = devices.divide(slot, r);
    const std::size_t width = slots_each + (r < larger ? 1 : 0);
    const std::size_t before = r * slots_each + (r < larger ? r : larger);
    return (samples * before + sample * width + local) * d;
  }
};

// A tensor in slot order and the blocks it is made of; Bits is an unsigned integer of the size of
// an element, W of which move at once.
template <class Bits, int W>
struct Order {
  std::size_t count;  // packs
  FastDivide packs, slots;
  Blocks blocks;
  Bits *block_data, *y;
  std::size_t row_stride;

  Order(const TensorRef& in_slots, const TensorRef& in_blocks, std::size_t devices)
      : count(in_slots.size() / W),
        packs(in_slots.shape[2] / W),
        slots(in_slots.shape[1]),
        blocks{in_slots.shape[0], in_slots.shape[2],           FastDivide(devices),
               devices,           in_slots.shape[1] / devices, in_slots.shape[1] % devices},
        block_data(static_cast<Bits*>(in_blocks.data)),
        y(static_cast<Bits*>(in_slots.data)),
        row_stride(in_slots.row_stride) {}
  unsigned grid() const { return grid_for(count, kThreads); }

  // Moves every element in and out once.
  template <bool kForward>
  __device__ void move() const {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t t = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < count;
         t += step) {
      std::size_t pack, slot;
      const std::size_t vector = packs.divide(t, pack);
      const std::size_t sample = slots.divide(vector, slot);
      Bits* block_at = block_data + blocks.vector(sample, slot) + pack * W;
      Bits* y_at = y + sample * row_stride + slot * blocks.d + pack * W;
      if constexpr (kForward) {
        store_pack<W>(y_at, load_pack<W>(block_at));
      } else {
        store_pack<W>(block_at, load_pack<W>(y_at));
      }
    }
  }
};

template <bool kForward, class Bits, int W>
__global__ void reorder_kernel(Order<Bits, W> order) {
  order.template move<kForward>();
}
template <bool kForward, class Bits, int W>
__global__ void reorder_many_kernel(const __grid_constant__ Many<Order<Bits, W>> many) {
  many.mine().template move<kForward>();
}

// What an op moves, whichever way.
struct Move {
  TensorRef in_slots, in_blocks;
  std::size_t devices;

  explicit Move(const EmbeddingReorderFwd& op)
      : in_slots(op.y), in_blocks(op.blocks), devices(static_cast<std::size_t>(op.device_count)) {}
  explicit Move(const EmbeddingReorderBwd& op)
      : in_slots(op.dy),
        in_blocks(op.dblocks),
        devices(static_cast<std::size_t>(op.device_count)) {}

  // Bytes of an element, and how many bytes move at once: 16, or 8 where vectors of 8 lie among
  // wider ones, or an element.
  std::pair<std::size_t, std::size_t> kind() const {
    const std::size_t size = size_of(in_slots.dtype);
    return {size, size == 4 ? widest<std::uint32_t>() : widest<std::uint16_t>()};
  }

 private:
  template <class Bits>
  std::size_t widest() const {
    if (fits<Bits, 16>()) return 16;
    return fits<Bits, 8>() ? 8 : sizeof(Bits);
  }
  template <class Bits, int kBytes>
  bool fits() const {
    constexpr int kWide = kBytes / sizeof(Bits);
    return in_slots.shape[2] % kWide == 0 &&
           packs_fit(static_cast<Bits*>(in_slots.data), in_slots.row_stride, kWide) &&
           packs_fit(static_cast<Bits*>(in_blocks.data), 0, kWide);
  }
};

/// Calls f.operator()<Bits, W>().
template <class F>
void with_kind(const std::pair<std::size_t, std::size_t>& kind, const F& f) {
  if (kind.first == 4) {
    if (kind.second == 16) return f.template operator()<std::uint32_t, 4>();
    if (kind.second == 8) return f.template operator()<std::uint32_t, 2>();
    return f.template operator()<std::uint32_t, 1>();
  }
  if (kind.second == 16) return f.template operator()<std::uint16_t, 8>();
  if (kind.second == 8) return f.template operator()<std::uint16_t, 4>();
  return f.template operator()<std::uint16_t, 1>();
}

template <class Op, bool kForward>
void reorder(const OpContext& context, const Op& op) {
  const Move move(op);
  if (move.in_slots.size() == 0) return;
  with_kind(move.kind(), [&]<class Bits, int W>() {
    const Order<Bits, W> order(move.in_slots, move.in_blocks, move.devices);
    launch(context, Op::kName, dim3(order.grid()), dim3(kThreads), 0,
           &reorder_kernel<kForward, Bits, W>, order);
  });
}

template <class Op, bool kForward>
void reorder_many(const OpContext& context, const Several<Op>& several) {
  std::map<std::pair<std::size_t, std::size_t>, std::vector<Move>> alike;
  for (const Op& op : several.ops) {
    const Move move(op);
    if (move.in_slots.size() > 0) alike[move.kind()].push_back(move);
  }
  for (const auto& [kind, moves] : alike) {
    with_kind(kind, [&]<class Bits, int W>() {
      std::vector<Order<Bits, W>> orders;
      for (const Move& move : moves) {
        orders.emplace_back(move.in_slots, move.in_blocks, move.devices);
      }
      launch_many<Order<Bits, W>>(context, Op::kSeveralName, orders, dim3(kThreads),
                                  &reorder_many_kernel<kForward, Bits, W>,
                                  [](const Order<Bits, W>& order) { return order.grid(); });
    });
  }
}

const OpRegistration<EmbeddingReorderFwd> reorder_fwd_cuda{DeviceType::Cuda,
                                                           &reorder<EmbeddingReorderFwd, true>};
const SeveralRegistration<EmbeddingReorderFwd> several_reorder_fwd_cuda{
    DeviceType::Cuda, &reorder_many<EmbeddingReorderFwd, true>};
const OpRegistration<EmbeddingReorderBwd> reorder_bwd_cuda{DeviceType::Cuda,
                                                           &reorder<EmbeddingReorderBwd, false>};
const SeveralRegistration<EmbeddingReorderBwd> several_reorder_bwd_cuda{
    DeviceType::Cuda, &reorder_many<EmbeddingReorderBwd, false>};

}  // namespace
}  // namespace hugectr::cuda
