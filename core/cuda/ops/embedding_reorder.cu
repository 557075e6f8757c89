// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/embedding_reorder.hpp"
#include "core/cpp/ops/filter_keys.hpp"
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

// Moves every element in and out once; Bits is an unsigned integer of its size.
template <class Bits, int W, bool kForward>
__global__ void reorder_kernel(std::size_t count, FastDivide packs, FastDivide slots, Blocks blocks,
                               Bits* block_data, Bits* y, std::size_t row_stride) {
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

template <class Bits, bool kForward>
void reorder_bits(const OpContext& context, const char* name, const TensorRef& y,
                  const TensorRef& block_ref, std::size_t devices) {
  const std::size_t samples = y.shape[0], slots = y.shape[1], d = y.shape[2];
  const Blocks blocks{samples, d, FastDivide(devices), devices, slots / devices, slots % devices};
  auto* block_data = static_cast<Bits*>(block_ref.data);
  auto* y_data = static_cast<Bits*>(y.data);
  constexpr int kWide = 16 / sizeof(Bits);
  const auto start = [&]<int W>(std::integral_constant<int, W>) {
    launch(context, name, dim3(grid_for(y.size() / W, kThreads)), dim3(kThreads), 0,
           &reorder_kernel<Bits, W, kForward>, y.size() / W, FastDivide(d / W), FastDivide(slots),
           blocks, block_data, y_data, y.row_stride);
  };
  if (d % kWide == 0 && packs_fit(y_data, y.row_stride, kWide) && packs_fit(block_data, 0, kWide)) {
    start(std::integral_constant<int, kWide>{});
  } else {
    start(std::integral_constant<int, 1>{});
  }
}

template <bool kForward>
void reorder(const OpContext& context, const char* name, const TensorRef& y,
             const TensorRef& blocks, std::int64_t device_count) {
  if (y.size() == 0) return;
  const auto devices = static_cast<std::size_t>(device_count);
  size_of(y.dtype) == 4 ? reorder_bits<std::uint32_t, kForward>(context, name, y, blocks, devices)
                        : reorder_bits<std::uint16_t, kForward>(context, name, y, blocks, devices);
}

void embedding_reorder_fwd(const OpContext& context, const EmbeddingReorderFwd& op) {
  reorder<true>(context, EmbeddingReorderFwd::kName, op.y, op.blocks, op.device_count);
}

void embedding_reorder_bwd(const OpContext& context, const EmbeddingReorderBwd& op) {
  reorder<false>(context, EmbeddingReorderBwd::kName, op.dy, op.dblocks, op.device_count);
}

const OpRegistration<EmbeddingReorderFwd> reorder_fwd_cuda{DeviceType::Cuda,
                                                           &embedding_reorder_fwd};
const SeveralRegistration<EmbeddingReorderFwd> several_reorder_fwd_cuda{DeviceType::Cuda};
const OpRegistration<EmbeddingReorderBwd> reorder_bwd_cuda{DeviceType::Cuda,
                                                           &embedding_reorder_bwd};
const SeveralRegistration<EmbeddingReorderBwd> several_reorder_bwd_cuda{DeviceType::Cuda};

}  // namespace
}  // namespace hugectr::cuda
