// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/cuda/device/copy_pieces.hpp"
#include "core/cuda/device/launch.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kWordsPerThread = 4;
constexpr std::size_t kMost = 128;  // the parameters of a launch are 4 KB at most
constexpr std::size_t kFew = 32;    // which take the host less time to hand over

template <std::size_t kCount>
struct Pieces {
  CopiedBytes all[kCount];
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
template <std::size_t kCount>
__global__ void copy_pieces_kernel(const __grid_constant__ Pieces<kCount> pieces) {
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

template <std::size_t kCount>
void copy_some(const OpContext& context, const char* name, std::span<const CopiedBytes> pieces) {
  Pieces<kCount> some;
  unsigned blocks = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    some.all[i] = pieces[i];
    const std::size_t words = some.all[i].bytes / word_of(some.all[i]);
    blocks = std::max(blocks, grid_for(words, kThreads * kWordsPerThread));
  }
  launch(context, name, dim3(blocks, static_cast<unsigned>(pieces.size())), dim3(kThreads), 0,
         &copy_pieces_kernel<kCount>, some);
}

}  // namespace

void copy_pieces(const OpContext& context, const char* name,
                 const std::vector<CopiedBytes>& pieces) {
  for (std::size_t at = 0; at < pieces.size(); at += kMost) {
    const auto some = std::span(pieces).subspan(at, std::min(kMost, pieces.size() - at));
    some.size() <= kFew ? copy_some<kFew>(context, name, some)
                        : copy_some<kMost>(context, name, some);
  }
}

}  // namespace hugectr::cuda
