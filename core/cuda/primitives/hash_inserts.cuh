// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cuda/primitives/hash_lines.cuh"

/// How a warp puts keys into the index of a hash table.
///
/// It looks at the lines of 32 keys at a time. A key that needs a further look (its line was full,
/// another thread was faster, its row is not known yet) waits in shared memory until it can fill up
/// a warp with others. Keys that won a place wait there too, so that up to 128 of them take their
/// rows with one addition to the counter: additions to one address are served one after the other.
///
/// A place is filled once and never again, so a line that is read while others write it is right
/// wherever it shows a key; where it shows a free place, the swap tells the truth. A key goes into
/// the foremost free place only, so that two threads with the same key always meet: the slower one
/// fails to swap, looks again and finds the key. Who finds a key without its row waits for whoever
/// won its place. Nobody waits while holding a place: a warp that must wait first publishes all it
/// has won.
namespace hugectr::cuda {

inline constexpr unsigned kHashThreads = 256;

/// What a warp keeps in shared memory.
struct InsertQueues {
  static constexpr unsigned kWinners = 128, kWaiting = 64;
  std::uint64_t won_place[kWinners];
  std::uint32_t won_i[kWinners];
  std::uint32_t i[kWaiting], line[kWaiting], tried[kWaiting];
};

/// One warp's part of a call. Rows says what is inserted and what becomes of it:
///   key(i), slot(i)       of item i
///   refuse(i), lose(i)    the reserved key; no place for it
///   kDistinct: value(i)   the value word of item i, which is in the index for certain not yet
///   else: found(i, value), reserve_rows(count) and value(i, row)
template <bool kSlots, class Rows>
class InsertWarp {
 public:
  __device__ InsertWarp(const Rows& rows, HashPlace* places, std::size_t capacity,
                        InsertQueues& queues)
      : rows_(rows),
        places_(places),
        capacity_(capacity),
        queues_(queues),
        lane_(threadIdx.x & 31) {}

  __device__ void run(std::uint32_t n) {
    const std::uint32_t step = gridDim.x * blockDim.x;
    std::uint64_t fresh = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x - lane_;
    while (true) {
      std::uint32_t i = 0;
      bool active = false, resumed = false;
      if (fresh < n && waiting_ < 32) {
        active = fresh + lane_ < n;
        i = static_cast<std::uint32_t>(fresh) + lane_;
        fresh += step;
      } else if (waiting_ > 0) {
        const unsigned taken = waiting_ < 32 ? waiting_ : 32;
        waiting_ -= taken;
        active = resumed = lane_ < taken;
      } else {
        break;
      }
      look_once(i, active, resumed);
    }
    if constexpr (!Rows::kDistinct) publish_won();
  }

 private:
  static __device__ unsigned rank(unsigned mask, unsigned lane) {
    return static_cast<unsigned>(__popc(mask & ((1u << lane) - 1)));
  }

  __device__ void look_once(std::uint32_t i, bool active, bool resumed) {
    const unsigned at = waiting_ + lane_;
    if (resumed) i = queues_.i[at];
    const auto key = active ? rows_.key(i) : decltype(rows_.key(i)){};
    if (active && !resumed && key == kEmptyKey<decltype(rows_.key(i))>) {
      rows_.refuse(i);
      active = false;
    }
    const std::uint32_t slot = kSlots && active ? rows_.slot(i) : 0;
    const std::uint64_t word = key_word(key);
    LineWalk walk(hash_key(widen_key(key), slot), capacity_);
    if (resumed) walk.resume(queues_.line[at], queues_.tried[at]);
    __syncwarp();

    LineView view = look<true, kSlots>(places_, word, slot, active ? walk.line() : kNoLine);
    if (Rows::kDistinct) view.match = 0;  // the same key of another slot
    bool again = false, won = false, stalled = false;
    std::size_t place = 0;
    if (active) {
      if (view.match != 0) {
        stalled = again = view.value == kUnpublished;
        if constexpr (!Rows::kDistinct) {
          if (!stalled) rows_.found(i, view.value);
        }
      } else if (view.empty != 0) {
        place = foremost(walk, view.empty);
        won = take(places_ + place, word);
        again = !won;
      } else if (walk.next()) {
        again = true;
      } else {
        rows_.lose(i);
      }
    }
    const unsigned again_mask = __ballot_sync(kFullWarp, again);
    if (again) {
      const unsigned to = waiting_ + rank(again_mask, lane_);
      queues_.i[to] = i;
      queues_.line[to] = walk.line();
      queues_.tried[to] = walk.tried();
    }
    waiting_ += static_cast<unsigned>(__popc(again_mask));
    if constexpr (Rows::kDistinct) {
      if (won) publish(places_ + place, rows_.value(i));
    } else {
      keep_won(i, place, won);
      const unsigned waits = __ballot_sync(kFullWarp, stalled);
      if (won_ + 32 > InsertQueues::kWinners || waits != 0) publish_won();
      if (waits != 0 && waits == again_mask) __nanosleep(100);
    }
    __syncwarp();
  }

  __device__ void keep_won(std::uint32_t i, std::size_t place, bool won) {
    const unsigned mask = __ballot_sync(kFullWarp, won);
    if (won) {
      const unsigned to = won_ + rank(mask, lane_);
      queues_.won_place[to] = place;
      queues_.won_i[to] = i;
    }
    won_ += static_cast<unsigned>(__popc(mask));
  }

  __device__ void publish_won() {
    if (won_ == 0) return;
    __syncwarp();
    unsigned long long first = 0;
    if (lane_ == 0) first = rows_.reserve_rows(won_);
    first = __shfl_sync(kFullWarp, first, 0);
    for (unsigned w = lane_; w < won_; w += 32) {
      publish(places_ + queues_.won_place[w], rows_.value(queues_.won_i[w], first + w));
    }
    won_ = 0;
    __syncwarp();
  }

  Rows rows_;
  HashPlace* places_;
  std::size_t capacity_;
  InsertQueues& queues_;
  unsigned lane_;
  unsigned waiting_ = 0, won_ = 0;
};

template <bool kSlots, class Rows>
__device__ void insert_keys(const Rows& rows, HashPlace* places, std::size_t capacity,
                            std::uint32_t n, InsertQueues& queues) {
  InsertWarp<kSlots, Rows>(rows, places, capacity, queues).run(n);
}

}  // namespace hugectr::cuda
