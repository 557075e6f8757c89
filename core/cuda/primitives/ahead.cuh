// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <type_traits>

#include "core/cuda/primitives/async_copy.cuh"

/// What bandwidth-bound loops need: loads that are under way while earlier ones are worked on.
namespace hugectr::cuda {

/// The next kAhead items of a thread, in registers or on their way there. load(item) begins to load
/// one; it is asked for items behind the last too, of which it reads nothing.
template <int kAhead, class Load>
class Ahead {
 public:
  __device__ explicit Ahead(const Load& load) : load_(load) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) items_[i] = load(static_cast<unsigned>(i));
  }
  /// use(item, its number) for `count` items, and those behind them up to a multiple of kAhead.
  template <class Use>
  __device__ void run(unsigned count, const Use& use) {
    for (unsigned first = 0; first < count; first += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const Item now = items_[i];
        items_[i] = load_(first + i + kAhead);
        use(now, first + i);
      }
    }
  }

 private:
  using Item = std::invoke_result_t<Load, unsigned>;
  Load load_;
  Item items_[kAhead];
};

template <int kAhead, class Load>
__device__ Ahead<kAhead, Load> ahead_of(const Load& load) {
  return Ahead<kAhead, Load>(load);
}

/// The same in shared memory, where they take no registers: kPacks packs of 16 bytes an item, the
/// next kStages items on their way. A slot is its thread's alone, so no barrier is needed. The
/// block has threads() threads and bytes(threads) of dynamic shared memory at `slots`.
template <int kStages, int kPacks>
class StagedAhead {
 public:
  static constexpr std::size_t bytes(unsigned threads) {
    return std::size_t{kStages} * kPacks * threads * 16;
  }

  /// copy(item, slot) begins the copies of an item with copy_16_async() or copy_row_pack_async();
  /// slot(i) is where pack i belongs. It is asked for items behind the last too.
  template <class Copy>
  __device__ StagedAhead(uint4* slots, unsigned thread, unsigned threads, const Copy& copy)
      : mine_(slots + thread), threads_(threads) {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) begin(stage, static_cast<unsigned>(stage), copy);
  }
  /// use(read(slot), item's number) for `count` items. read() takes an item out of its slots before
  /// the copies of a later one begin there.
  template <class Copy, class Read, class Use>
  __device__ void run(unsigned count, const Copy& copy, const Read& read, const Use& use) {
    int stage = 0;
    for (unsigned item = 0; item < count; ++item) {
      wait_for_copies<kStages - 1>();
      const auto now = read([&](int pack) -> const uint4& { return at(stage, pack); });
      begin(stage, item + kStages, copy);
      use(now, item);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
  }

 private:
  __device__ uint4& at(int stage, int pack) const {
    return mine_[static_cast<unsigned>(stage * kPacks + pack) * threads_];
  }
  template <class Copy>
  __device__ void begin(int stage, unsigned item, const Copy& copy) const {
    copy(item, [&](int pack) { return &at(stage, pack); });
    end_copy_group();
  }

  uint4* mine_;
  unsigned threads_;
};

}  // namespace hugectr::cuda
