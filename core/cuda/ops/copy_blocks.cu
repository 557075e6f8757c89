// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/copy_blocks.hpp"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kBytesPerThread = 64;

struct Block {
  const unsigned char* from;
  unsigned char* to;
  std::size_t bytes;
};

template <class Word>
__device__ void copy_words(const Block& block) {
  const auto* __restrict__ from = reinterpret_cast<const Word*>(block.from);
  auto* __restrict__ to = reinterpret_cast<Word*>(block.to);
  const std::size_t n = block.bytes / sizeof(Word);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    to[i] = from[i];
  }
}

// Reads and writes each byte once, in the widest words that both ends and the size allow.
__global__ void copy_blocks_kernel(const __grid_constant__ Many<Block> many) {
  const Block& block = many.mine();
  const std::size_t bits = reinterpret_cast<std::size_t>(block.from) |
                           reinterpret_cast<std::size_t>(block.to) | block.bytes;
  if (bits % 16 == 0) return copy_words<uint4>(block);
  if (bits % 4 == 0) return copy_words<std::uint32_t>(block);
  if (bits % 2 == 0) return copy_words<std::uint16_t>(block);
  copy_words<unsigned char>(block);
}

void append(std::vector<Block>& blocks, const CopyBlocks& op) {
  const std::size_t width = size_of(op.in.dtype);
  for (std::size_t b = 0; b < op.sizes.size(); ++b) {
    if (op.sizes[b] == 0) continue;
    blocks.push_back(
        {static_cast<const unsigned char*>(op.in.data) +
             static_cast<std::size_t>(op.from[b]) * width,
         static_cast<unsigned char*>(op.out.data) + static_cast<std::size_t>(op.to[b]) * width,
         static_cast<std::size_t>(op.sizes[b]) * width});
  }
}

void copy_all(const OpContext& context, const char* name, const std::vector<Block>& blocks) {
  launch_many<Block>(
      context, name, blocks, dim3(kThreads), &copy_blocks_kernel,
      [](const Block& block) { return grid_for(block.bytes, kThreads * kBytesPerThread); });
}

void copy_blocks(const OpContext& context, const CopyBlocks& op) {
  std::vector<Block> blocks;
  append(blocks, op);
  copy_all(context, CopyBlocks::kName, blocks);
}

void copy_several(const OpContext& context, const Several<CopyBlocks>& several) {
  std::vector<Block> blocks;
  for (const CopyBlocks& op : several.ops) append(blocks, op);
  copy_all(context, CopyBlocks::kSeveralName, blocks);
}

const OpRegistration<CopyBlocks> copy_blocks_cuda{DeviceType::Cuda, &copy_blocks};
const SeveralRegistration<CopyBlocks> several_copy_blocks_cuda{DeviceType::Cuda, &copy_several};

}  // namespace
}  // namespace hugectr::cuda
