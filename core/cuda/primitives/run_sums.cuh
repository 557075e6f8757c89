// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cuda/primitives/row_blocks.cuh"

/// Sums over a row's occurrences in the order that the CPU kernel of embedding_update.hpp keeps:
/// chunks of 64 one after the other, the chunks' sums pairwise, the left half of a tree being the
/// larger one. Threads that hold the same columns of a row work alone.
namespace hugectr::cuda {

inline constexpr std::uint32_t kChunk = 64;  ///< occurrences summed one after the other

/// Number of chunks of a run.
__device__ inline std::uint32_t chunks_of(std::uint32_t begin, std::uint32_t end) {
  return (end - begin + (kChunk - 1)) / kChunk;
}

/// A node of the tree over the chunks of a run.
struct ChunkRange {
  std::uint32_t first, count;
  __device__ ChunkRange left() const { return {first, (count + 1) / 2}; }
  __device__ ChunkRange right() const {
    const std::uint32_t half = (count + 1) / 2;
    return {first + half, count - half};
  }
};

/// The node number `index`, from the left, of those `depth` splits below `root`.
__device__ inline ChunkRange node_at(ChunkRange root, unsigned depth, std::uint32_t index) {
  while (depth-- > 0) root = index >> depth & 1 ? root.right() : root.left();
  return root;
}

/// Adds up the subtree of a node whose leaves lie kLevels splits below it: the sum of each leaf is
/// in sums[leaf.first], or, when `chunks`, those of its one or two chunks are. The result goes to
/// sums[node.first]: only this thread reads or writes these columns of the node's places.
template <int W, unsigned kLevels>
__device__ void fold_node(ChunkRange node, bool chunks, float* sums, std::size_t d) {
  constexpr unsigned kLeaves = 1u << kLevels;
  ChunkRange leaf[kLeaves];
  leaf[0] = node;
#pragma unroll
  for (unsigned level = 0; level < kLevels; ++level) {
#pragma unroll
    for (unsigned q = kLeaves / 2; q-- > 0;) {
      if (q >= 1u << level) continue;
      const ChunkRange parent = leaf[q];
      leaf[2 * q + 1] = parent.right();
      leaf[2 * q] = parent.left();
    }
  }
  Pack<float, W> x[kLeaves], second[kLeaves];
#pragma unroll
  for (unsigned q = 0; q < kLeaves; ++q) x[q] = load_pack<W>(sums + leaf[q].first * d);
#pragma unroll
  for (unsigned q = 0; q < kLeaves; ++q) {
    second[q] = {};
    if (chunks && leaf[q].count == 2) second[q] = load_pack<W>(sums + (leaf[q].first + 1) * d);
  }
#pragma unroll
  for (unsigned q = 0; q < kLeaves; ++q) {
    if (chunks && leaf[q].count == 2) add_pack(x[q], second[q]);
  }
#pragma unroll
  for (unsigned width = kLeaves / 2; width > 0; width /= 2) {
#pragma unroll
    for (unsigned q = 0; q < width; ++q) {
      x[q] = x[2 * q];
      add_pack(x[q], x[2 * q + 1]);
    }
  }
  store_pack<W>(sums + node.first * d, x[0]);
}

/// fold_node() with a number of levels known at run time, 1 to 3.
template <int W>
__device__ void fold_levels(unsigned levels, ChunkRange node, bool chunks, float* sums,
                            std::size_t d) {
  if (levels == 3) {
    fold_node<W, 3>(node, chunks, sums, d);
  } else if (levels == 2) {
    fold_node<W, 2>(node, chunks, sums, d);
  } else {
    fold_node<W, 1>(node, chunks, sums, d);
  }
}

/// The deepest level at which every node of a tree has a chunk: its nodes have one or two.
__device__ inline unsigned tree_depth(std::uint32_t count) {
  return 31 - __clz(static_cast<int>(count));
}

/// sums[0] := tree over sums[0 .. count), 2 <= count <= 15, by one worker.
template <int W>
__device__ void fold_few(std::uint32_t count, float* sums, std::size_t d) {
  fold_levels<W>(tree_depth(count), {0, count}, true, sums, d);
}

/// sums[0] := tree over sums[0 .. count), count >= 2, by all workers of a block; `sums` is at the
/// thread's own columns. Ends with a barrier.
template <int W>
__device__ void fold_run(std::uint32_t count, float* sums, std::size_t d) {
  const ChunkRange root{0, count};
  unsigned depth = tree_depth(count);
  for (bool chunks = true; depth > 0; chunks = false) {
    const unsigned levels = min(depth, 3u);
    depth -= levels;
    for (std::uint32_t n = threadIdx.y; n < 1u << depth; n += blockDim.y) {
      fold_levels<W>(levels, node_at(root, depth, n), chunks, sums, d);
    }
    __syncthreads();  // also orders the block's writes to `sums` before its reads
  }
}

}  // namespace hugectr::cuda
