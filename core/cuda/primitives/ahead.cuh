// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

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

}  // namespace hugectr::cuda
