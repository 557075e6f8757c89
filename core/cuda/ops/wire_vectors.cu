// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/wire_vectors.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

// A group of lanes has a vector, whose largest number and content they find together; a lane then
// takes four neighbouring numbers, which share one draw of Philox. A read of the vectors from
// memory and one from the caches, and a write of a half or a quarter of them.
template <class T>
__global__ void wire_pack_vectors(std::size_t n, unsigned d, unsigned lanes, WireType type,
                                  std::uint64_t seed, std::int64_t stream, const std::int64_t* step,
                                  const T* __restrict__ x, std::uint8_t* __restrict__ y) {
  const WireFormat format = wire_format(type);
  const std::size_t width = wire_bytes(type, d);
  const std::uint64_t key = step ? wire_key(seed, stream, *step) : 0;
  const unsigned lane = threadIdx.x % lanes;
  const std::size_t groups = static_cast<std::size_t>(gridDim.x) * blockDim.x / lanes;
  const std::size_t group =
      (static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x) / lanes;
  // All lanes of a warp make as many rounds: they meet in the shuffles.
  const std::size_t rounds = (n + groups - 1) / groups;
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::size_t i = round * groups + group;
    const bool there = i < n;
    const T* const from = x + (there ? i : 0) * d;
    std::uint8_t* to = y + (there ? i : 0) * width;
    float scale = 1.0f, most = 0.0f;
    bool bad = false;
    std::uint64_t content = 0;
    for (unsigned j = lane; j < d; j += lanes) {
      const float value = cuda::widen(from[j]), size = fabsf(value);
      bad |= !(size <= 3.4028235e38f);
      most = fmaxf(most, size);
      content += wire_content(value, j);
    }
    for (unsigned other = lanes / 2; other > 0; other /= 2) {
      most = fmaxf(most, __shfl_xor_sync(~0u, most, other));
      bad |= __shfl_xor_sync(~0u, static_cast<int>(bad), other) != 0;
      content += __shfl_xor_sync(~0u, content, other);
    }
    if (format.scaled) {
      scale = bad ? __int_as_float(0x7FC00000) : wire_scale(type, most);
      if (there && lane == 0) *reinterpret_cast<float*>(to) = scale;
      to += sizeof scale;
      scale = bad ? 0.0f : 1.0f / scale;
    }
    if (!there) continue;
    for (unsigned j = 4 * lane; j < d; j += 4 * lanes) {
      const Philox4 random = step ? wire_bits(key, content, j / 4) : Philox4{};
      std::uint32_t bits[4] = {};
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        if (j + k >= d) continue;
        const float value = scale == 0.0f ? 0.0f : cuda::widen(from[j + k]) * scale;
        bits[k] = wire_encode(type, value, step == nullptr, random.x[k]);
      }
      // Padding is written with the numbers it follows.
      auto* const words = reinterpret_cast<std::uint32_t*>(to);
      if (format.bytes == 1) {
        words[j / 4] = bits[0] | bits[1] << 8 | bits[2] << 16 | bits[3] << 24;
      } else {
        words[j / 2] = bits[0] | bits[1] << 16;
        if (j + 2 < d) words[j / 2 + 1] = bits[2] | bits[3] << 16;
      }
    }
  }
}

// A thread has four neighbouring numbers of a vector. Reads all blocks once, writes once.
template <class T>
__global__ void wire_unpack_vectors(std::size_t n, cuda::FastDivide quarters, unsigned d,
                                    WireType type, unsigned blocks,
                                    const std::uint8_t* __restrict__ x, T* __restrict__ y) {
  const WireFormat format = wire_format(type);
  const std::size_t width = wire_bytes(type, d);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t count = n * ((d + 3) / 4);
  for (std::size_t unit = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       unit < count; unit += step) {
    std::size_t quarter;
    const std::size_t i = quarters.divide(unit, quarter);
    const auto j = static_cast<unsigned>(4 * quarter);
    float sum[4] = {};
    for (unsigned r = 0; r < blocks; ++r) {
      const std::uint8_t* from = x + (static_cast<std::size_t>(r) * n + i) * width;
      float scale = 1.0f;
      if (format.scaled) {
        scale = *reinterpret_cast<const float*>(from);
        from += sizeof scale;
      }
      const auto* const words = reinterpret_cast<const std::uint32_t*>(from);
      std::uint32_t bits[4] = {};
      if (format.bytes == 1) {
        const std::uint32_t word = words[j / 4];
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) bits[k] = word >> (8 * k) & 0xFFu;
      } else {
        const std::uint32_t low = words[j / 2], high = j + 2 < d ? words[j / 2 + 1] : 0;
        bits[0] = low & 0xFFFFu;
        bits[1] = low >> 16;
        bits[2] = high & 0xFFFFu;
        bits[3] = high >> 16;
      }
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        // Not contracted with the sum: the CPU rounds the product, which is exact but for
        // subnormal numbers.
        const float value = __fmul_rn(wire_decode(type, bits[k]), scale);
        sum[k] = r == 0 ? value : sum[k] + value;
      }
    }
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
      if (j + k < d) y[i * d + j + k] = cuda::narrow<T>(sum[k]);
    }
  }
}

/// Lanes of a warp that share a vector of d numbers: a power of two.
unsigned lanes_for(std::size_t d) {
  unsigned lanes = 1;
  while (lanes < 32 && lanes * 4 < d) lanes *= 2;
  return lanes;
}

void wire_pack(const OpContext& context, const WirePack& op) {
  const std::size_t n = op.x.shape[0], d = op.x.shape[1];
  if (n == 0) return;
  const unsigned lanes = lanes_for(d);
  const std::int64_t* const step = op.step.empty() ? nullptr : op.step.ptr<std::int64_t>();
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) {
    cuda::launch(context, WirePack::kName, dim3(cuda::grid_for(n * lanes, cuda::kThreads)),
                 dim3(cuda::kThreads), 0, &wire_pack_vectors<T>, n, static_cast<unsigned>(d), lanes,
                 op.type, op.seed, op.stream, step, static_cast<const T*>(op.x.ptr<T>()),
                 op.y.ptr<std::uint8_t>());
  });
}

void wire_unpack(const OpContext& context, const WireUnpack& op) {
  const std::size_t n = op.y.shape[0], d = op.y.shape[1], quarters = (d + 3) / 4;
  if (n == 0) return;
  cuda::with_real_type(op.y.dtype, [&]<class T>(T) {
    cuda::launch(context, WireUnpack::kName, dim3(cuda::grid_for(n * quarters, cuda::kThreads)),
                 dim3(cuda::kThreads), 0, &wire_unpack_vectors<T>, n, cuda::FastDivide(quarters),
                 static_cast<unsigned>(d), op.type, static_cast<unsigned>(op.blocks),
                 static_cast<const std::uint8_t*>(op.x.ptr<std::uint8_t>()), op.y.ptr<T>());
  });
}

const OpRegistration<WirePack> wire_pack_cuda{DeviceType::Cuda, &wire_pack};
const OpRegistration<WireUnpack> wire_unpack_cuda{DeviceType::Cuda, &wire_unpack};
const SeveralRegistration<WirePack> several_wire_pack_cuda{DeviceType::Cuda};
const SeveralRegistration<WireUnpack> several_wire_unpack_cuda{DeviceType::Cuda};

}  // namespace
}  // namespace hugectr
