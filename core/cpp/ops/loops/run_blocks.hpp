// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

inline constexpr std::size_t kMaxRunVecSize = 1024;  ///< longest vector

/// The gradients of a batch's rows (runs: lookup_sort.hpp), summed block by block for one thread.
/// Sums are compiled for each usual d and what is done with them is not: a block lies between the
/// two.
class RunBlocks {
 public:
  static constexpr std::size_t kRuns = 16;  ///< of a block: they stay in the first-level cache

  /// Runs [begin, end) are to come, one after the other. sorted_buckets uint32; gradient (samples,
  /// slots, d) float32, any row_stride, d at most kMaxRunVecSize; scale one float32 a bucket or
  /// empty; run_offsets uint32.
  RunBlocks(const TensorRef& sorted_buckets, const TensorRef& gradient, const TensorRef& scale,
            const TensorRef& run_offsets, std::size_t begin, std::size_t end);

  /// sums (end - begin, d) := unscale * the sums of runs [begin, end).
  void sum(std::size_t begin, std::size_t end, float unscale, float* sums);
  /// The same of at most kRuns runs, in memory of this object.
  float* sums(std::size_t begin, std::size_t end, float unscale) {
    block_.resize(kRuns * d_);
    sum(begin, end, unscale, block_.data());
    return block_.data();
  }

 private:
  template <std::size_t D>
  void sum_rows(std::size_t begin, std::size_t end, float unscale, float* sums);

  const TensorRef &sorted_buckets_, &gradient_, &scale_;
  const std::uint32_t* offsets_;
  std::size_t d_, occurrences_, fetched_;
  std::vector<float> block_;
};

}  // namespace hugectr
