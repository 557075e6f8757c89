// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/loops/run_blocks.hpp"

#include <algorithm>

#include "core/cpp/ops/loops/run_sum.hpp"
#include "core/cpp/ops/loops/vec_size_dispatch.hpp"

namespace hugectr {

RunBlocks::RunBlocks(const TensorRef& sorted_buckets, const TensorRef& gradient,
                     const TensorRef& scale, const TensorRef& run_offsets, std::size_t begin,
                     std::size_t end)
    : sorted_buckets_(sorted_buckets),
      gradient_(gradient),
      scale_(scale),
      offsets_(run_offsets.ptr<std::uint32_t>()),
      d_(gradient.shape[2]),
      occurrences_(offsets_[end]),
      fetched_(offsets_[begin]) {}

template <std::size_t D>
void RunBlocks::sum_rows(std::size_t begin, std::size_t end, float unscale, float* sums) {
  RunSum<D> run_sum(sorted_buckets_, gradient_, scale_);
  const std::size_t d = D ? D : d_;
  for (std::size_t run = begin; run < end; ++run, sums += d) {
    const std::size_t wanted =
        std::min<std::size_t>(occurrences_, offsets_[run + 1] + kBucketsAhead);
    for (; fetched_ < wanted; ++fetched_) run_sum.prefetch(fetched_);
    run_sum(offsets_[run], offsets_[run + 1], sums);
    set_scaled<D>(sums, sums, unscale, d);
  }
}

void RunBlocks::sum(std::size_t begin, std::size_t end, float unscale, float* sums) {
  with_vec_size(d_, [&](auto dim) { sum_rows<decltype(dim)::value>(begin, end, unscale, sums); });
}

}  // namespace hugectr
