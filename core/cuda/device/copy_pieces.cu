// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "core/cuda/device/copy_pieces.hpp"
#include "core/cuda/device/launch.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kWordsPerThread = 4;
constexpr std::size_t kMost = 128;  // the parameters of a launch are 4 KB at most

struct Pieces {
  CopiedBytes all[kMost];
};

/// Bytes of the widest word that both ends and the size allow.
__host__ __device__ std::size_t word_of(const CopiedBytes& piece) {
  const std::size_t bits = reinterpret_cast<std::size_t>(piece.from) |
                           reinterpret_cast<std::size_t>(piece.to) | piece.bytes;
  return bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : bits % 2 == 0 ? 2 : 1;
}

template <class Word>
__device__ void copy_words(const CopiedBytes& piece) {
  const auto* __restrict__ from = static_cast<const Word*>(piece.from);
  auto* __restrict__ to = static_cast<Word*>(piece.to);
  const std::size_t n = piece.bytes / sizeof(Word);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    to[i] = from[i];
  }
}

// Reads and writes each byte once.
__global__ void copy_pieces_kernel(const __grid_constant__ Pieces pieces) {
  const CopiedBytes& piece = pieces.all[blockIdx.y];
  switch (word_of(piece)) {
    case 16:
      return copy_words<uint4>(piece);
    case 4:
      return copy_words<std::uint32_t>(piece);
    case 2:
      return copy_words<std::uint16_t>(piece);
    default:
      return copy_words<unsigned char>(piece);
  }
}

}  // namespace

void copy_pieces(const OpContext& context, const char* name,
                 const std::vector<CopiedBytes>& pieces) {
  for (std::size_t at = 0; at < pieces.size(); at += kMost) {
    const std::size_t count = std::min(kMost, pieces.size() - at);
    Pieces some;
    unsigned blocks = 0;
    for (std::size_t i = 0; i < count; ++i) {
      some.all[i] = pieces[at + i];
      const std::size_t words = some.all[i].bytes / word_of(some.all[i]);
      blocks = std::max(blocks, grid_for(words, kThreads * kWordsPerThread));
    }
    launch(context, name, dim3(blocks, static_cast<unsigned>(count)), dim3(kThreads), 0,
           &copy_pieces_kernel, some);
  }
}

}  // namespace hugectr::cuda
