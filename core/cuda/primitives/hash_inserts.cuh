// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>

#include "core/cuda/primitives/hash_lines.cuh"

/// How the threads of a block put keys into the index of a hash table.
///
/// A warp looks at the lines of 32 keys at a time. A key that needs a further look (its line was
/// full, another thread was faster, its row is not known yet) waits in shared memory until it can
/// fill up a warp with others. After every look the warps of a block take the rows of the keys that
/// won a place together and publish them: additions to the one counter are served one after the
/// other, 3 ns each on an H200, and a place that is published later has left the cache by then.
///
/// A place is filled once and never again, so a line that is read while others write it is right
/// wherever it shows a key; where it shows a free place, the swap tells the truth. A key goes into
/// the foremost free place only, or where it lies dead, so that two threads with the same key
/// always meet: the slower one fails to swap, looks again and finds the key. Who finds a key
/// without its row looks again until it is there; nobody holds a place longer than one look, so no
/// two can wait for each other.
namespace hugectr::cuda {

/// Four warps: enough for the counter, and few to wait for each other after every look.
inline constexpr unsigned kInsertThreads = 128;

/// What a block keeps in shared memory.
struct InsertShared {
  static constexpr unsigned kWarps = kInsertThreads / 32, kWaiting = 64;
  /// Keys of a warp that wait for another look.
  struct Queue {
    std::uint32_t i[kWaiting], line[kWaiting], tried[kWaiting];
  } queues[kWarps];
  /// What a warp says after a look: keys that won, and kMore. Two sets in turn, so that a warp may
  /// write its next one while another still reads.
  std::uint32_t said[2][kWarps];
  static constexpr std::uint32_t kMore = 1u << 16;
  unsigned long long first_row;
};

/// One warp's part of a call; all warps of a block make theirs. Rows says what is inserted and what
/// becomes of it:
///   key(i), slot(i)       of item i
///   refuse(i), lose(i)    the reserved key; no place for it
///   kDistinct: value(i)   the value word of item i, which is for certain not in the index
///   else: found(i, value), reserve_rows(count) and value(i, key, slot, row)
template <bool kSlots, class Rows>
class InsertWarp {
 public:
  __device__ InsertWarp(const Rows& rows, HashPlace* places, std::size_t capacity,
                        InsertShared& shared)
      : rows_(rows),
        places_(places),
        capacity_(capacity),
        shared_(shared),
        queue_(shared.queues[threadIdx.x / 32]),
        lane_(threadIdx.x & 31) {}

  __device__ void run(std::uint32_t n) {
    const std::uint32_t step = gridDim.x * blockDim.x;
    std::uint64_t fresh = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x - lane_;
    bool more = true;
    while (more) {
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
      }
      const bool any = __any_sync(kFullWarp, active);
      more = any ? look_once(i, active, resumed, fresh < n) : finish(false, 0, {}, 0, 0, false);
    }
  }

 private:
  using Key = decltype(std::declval<Rows>().key(0));

  __device__ unsigned rank(unsigned mask) const {
    return static_cast<unsigned>(__popc(mask & ((1u << lane_) - 1)));
  }

  __device__ bool look_once(std::uint32_t i, bool active, bool resumed, bool more_fresh) {
    const unsigned at = waiting_ + lane_;
    if (resumed) i = queue_.i[at];
    const Key key = active ? rows_.key(i) : Key{};
    if (active && key == kEmptyKey<Key>) {
      rows_.refuse(i);
      active = false;
    }
    const std::uint32_t slot = kSlots && active ? rows_.slot(i) : 0;
    const std::uint64_t word = key_word(key);
    LineWalk walk(hash_key(widen_key(key), slot), capacity_);
    if (resumed) walk.resume(queue_.line[at], queue_.tried[at]);
    __syncwarp();

    LineView view = look<true, kSlots>(places_, word, slot, active ? walk.line() : kNoLine);
    if (Rows::kDistinct) view.match = 0;  // the same key of another slot
    bool again = false, won = false;
    std::size_t place = 0;
    if (active) {
      if (view.match != 0) {
        if (value_row(view.value) == kDeadRow) {
          place = walk.first() + static_cast<unsigned>(__ffs(static_cast<int>(view.match))) - 1;
          won = revive(places_ + place, slot);
          again = !won;
        } else {
          again = view.value == kUnpublished;
          if constexpr (!Rows::kDistinct) {
            if (!again) rows_.found(i, view.value);
          }
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
      const unsigned to = waiting_ + rank(again_mask);
      queue_.i[to] = i;
      queue_.line[to] = walk.line();
      queue_.tried[to] = walk.tried();
    }
    waiting_ += static_cast<unsigned>(__popc(again_mask));
    __syncwarp();
    return finish(won, i, key, slot, place, more_fresh || waiting_ > 0);
  }

  /// Gives the keys that won their rows. Whether there is more to do, for any warp of the block
  /// when they go together.
  __device__ bool finish(bool won, std::uint32_t i, Key key, std::uint32_t slot, std::size_t place,
                         bool more) {
    if constexpr (Rows::kDistinct) {
      if (won) publish(places_ + place, rows_.value(i));
      return more;
    } else {
      const unsigned mask = __ballot_sync(kFullWarp, won);
      const unsigned warp = threadIdx.x / 32;
      auto& said = shared_.said[round_++ & 1];
      if (lane_ == 0) {
        said[warp] = static_cast<std::uint32_t>(__popc(mask)) | (more ? InsertShared::kMore : 0u);
      }
      __syncthreads();
      unsigned before = 0, all = 0;
      bool any_more = false;
#pragma unroll
      for (unsigned w = 0; w < InsertShared::kWarps; ++w) {
        if (w == warp) before = all;
        all += said[w] & (InsertShared::kMore - 1);
        any_more |= (said[w] & InsertShared::kMore) != 0;
      }
      if (all != 0) {
        if (threadIdx.x == 0) shared_.first_row = rows_.reserve_rows(all);
        __syncthreads();
        if (won) {
          const unsigned long long row = shared_.first_row + before + rank(mask);
          publish(places_ + place, rows_.value(i, key, slot, row));
        }
      }
      return any_more;
    }
  }

  Rows rows_;
  HashPlace* places_;
  std::size_t capacity_;
  InsertShared& shared_;
  InsertShared::Queue& queue_;
  unsigned lane_;
  unsigned waiting_ = 0, round_ = 0;
};

}  // namespace hugectr::cuda
