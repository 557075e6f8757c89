// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/memory/tensor_ref.hpp"
#include "core/cpp/ops/loops/vec_size_dispatch.hpp"

/// Sums over the occurrences of a row (runs: lookup_sort.hpp) of scale[bucket] * gradient[bucket]:
/// chunks of 64 one after the other, the chunks' sums pairwise, the left half of a tree being the
/// larger one. The order depends on the length of a run only.
namespace hugectr {

inline constexpr std::size_t kRunChunk = 64;      ///< occurrences summed one after the other
inline constexpr std::size_t kBucketsAhead = 24;  ///< gradients fetched before they are needed

/// Sums runs of occurrences of one batch, for one thread.
template <std::size_t D>
class RunSum {
 public:
  /// sorted_buckets uint32; gradient (samples, slots, d) float32; scale one float32 a bucket or
  /// empty.
  RunSum(const TensorRef& sorted_buckets, const TensorRef& gradient, const TensorRef& scale)
      : buckets_(sorted_buckets.ptr<std::uint32_t>()),
        gradient_(gradient.ptr<float>()),
        scales_(scale.empty() ? nullptr : scale.ptr<float>()),
        slots_(gradient.shape[1]),
        row_stride_(gradient.row_stride),
        dim_(D ? D : gradient.shape[2]),
        packed_(gradient.row_stride == slots_ * dim_) {}

  [[gnu::always_inline]] void prefetch(std::size_t i) const { prefetch_row(at(i), dim()); }

  /// sum := gradients of occurrences [begin, end); end > begin.
  void operator()(std::size_t begin, std::size_t end, float* sum) {
    const std::size_t chunks = (end - begin + kRunChunk - 1) / kRunChunk;
    if (chunks == 1) return add_up(begin, end, sum);
    if (partials_.empty()) partials_.resize(kMaxLevels * dim());
    tree(begin, end, chunks, sum, partials_.data());
  }

 private:
  static constexpr std::size_t kMaxLevels = 28;  // 2^32 occurrences / kRunChunk

  std::size_t dim() const { return D ? D : dim_; }
  [[gnu::always_inline]] const float* at(std::size_t i) const {
    const std::uint32_t bucket = buckets_[i];
    if (packed_) return gradient_ + bucket * dim();
    const auto slots = static_cast<std::uint32_t>(slots_);
    return gradient_ + bucket / slots * row_stride_ + bucket % slots * dim();
  }
  void add_up(std::size_t begin, std::size_t end, float* sum) const {
    for (std::size_t i = begin; i < end; ++i) {
      const float* g = at(i);
      const float scale = scales_ ? scales_[buckets_[i]] : 1.0f;
      if (i == begin) {
        set_scaled<D>(sum, g, scale, dim());
      } else {
        add_scaled<D>(sum, g, scale, dim());
      }
    }
  }
  /// Left half, then right half into the next partial, then their sum.
  void tree(std::size_t begin, std::size_t end, std::size_t chunks, float* sum,
            float* partial) const {
    if (chunks == 1) return add_up(begin, end, sum);
    const std::size_t left = (chunks + 1) / 2;
    const std::size_t middle = begin + left * kRunChunk;
    tree(begin, middle, left, sum, partial);
    tree(middle, end, chunks - left, partial, partial + dim());
    add_scaled<D>(sum, partial, 1.0f, dim());
  }

  const std::uint32_t* buckets_;
  const float* gradient_;
  const float* scales_;
  std::size_t slots_, row_stride_, dim_;
  bool packed_;
  std::vector<float> partials_;
};

}  // namespace hugectr
