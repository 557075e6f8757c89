// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cuda/primitives/copy_engine.cuh"

namespace hugectr::cuda {

/// Of a kernel under way, in device memory: zeros before it and after it.
struct TileTickets {
  std::uint32_t taken, done;
};

/// The tiles of a block that stays on its multiprocessor: the first is its own, the others come
/// from a counter of all blocks, so that one which begins late, because another kernel holds its
/// multiprocessor, makes fewer. With tiles shared out beforehand the others would wait until it has
/// made as many as they. Which block makes a tile changes nothing of it. Code for sm_90a, in shared
/// memory.
///
/// One thread gives, `readers` threads take; both count tiles from 0.
struct TileQueue {
  static constexpr unsigned kAhead = 2;
  std::uint32_t tiles[kAhead];
  Barrier full[kAhead], empty[kAhead];

  __device__ void init(unsigned readers) {
    for (unsigned place = 0; place < kAhead; ++place) {
      full[place].init(1);
      empty[place].init(readers);
    }
  }
  /// The block's n-th tile; behind the last one a number that is none.
  __device__ void give(unsigned n, std::uint32_t tile) {
    const unsigned place = n % kAhead;
    empty[place].wait((n / kAhead & 1) ^ 1);
    tiles[place] = tile;
    full[place].arrive();
  }
  __device__ std::uint32_t take(unsigned n) {
    const unsigned place = n % kAhead;
    full[place].wait(n / kAhead & 1);
    const std::uint32_t tile = tiles[place];
    empty[place].arrive();
    return tile;
  }
  /// Of the giver: a number behind those with which blocks begin, which are their own.
  __device__ static std::uint32_t next(TileTickets* tickets) {
    return gridDim.x + atomicAdd(&tickets->taken, 1u);
  }
  /// Of the giver, behind its last next(): the last block leaves zeros.
  __device__ static void end(TileTickets* tickets) {
    __threadfence();
    if (atomicAdd(&tickets->done, 1u) == gridDim.x - 1) *tickets = {0, 0};
  }
};

}  // namespace hugectr::cuda
