// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cuda/primitives/raw_pack.cuh"
#include "core/cuda/primitives/row_blocks.cuh"
#include "core/cuda/primitives/vector_stream.cuh"

/// Gradient vectors of buckets, read in the order of the occurrences of rows: each read depends on
/// the bucket number before it, so the numbers of the next occurrences are fetched while the
/// vectors of these are under way.
namespace hugectr::cuda {

template <class T>
struct BucketGradients {
  const std::uint32_t* buckets;  ///< bucket of every occurrence, sorted by row
  const T* gradient;
  const float* scales;  ///< or null: 1
  std::size_t d, row_stride;
  FastDivide slots;
  bool packed;  ///< row_stride is slots * d

  __device__ const T* at(std::uint32_t bucket) const {
    if (packed) return gradient + bucket * d;
    std::size_t slot;
    const std::size_t sample = slots.divide(bucket, slot);
    return gradient + sample * row_stride + slot * d;
  }
};

/// sorted_buckets uint32; gradient (samples, slots, d) of T; scale one float32 a bucket or empty.
template <class T>
BucketGradients<T> bucket_gradients(const TensorRef& sorted_buckets, const TensorRef& gradient,
                                    const TensorRef& scale) {
  const std::size_t slots = gradient.shape[1], d = gradient.shape[2];
  return {sorted_buckets.ptr<std::uint32_t>(),
          gradient.ptr<T>(),
          scale.empty() ? nullptr : scale.ptr<float>(),
          d,
          gradient.row_stride,
          FastDivide(slots),
          gradient.row_stride == slots * d};
}

/// The vector of a bucket at columns [column, column + W), as it was loaded, and its scale.
template <int W, class T>
struct ScaledVector {
  RawPack<W, T> x;
  float scale;

  static __device__ ScaledVector load(const BucketGradients<T>& gradients, std::uint32_t bucket,
                                      unsigned column) {
    return {RawPack<W, T>::load(gradients.at(bucket) + column),
            gradients.scales ? gradients.scales[bucket] : 1.0f};
  }
  /// sum += scale * x
  __device__ void add_to(Pack<float, W>& sum) const {
#pragma unroll
    for (int k = 0; k < W; ++k) sum.v[k] = fmaf(scale, x[k], sum.v[k]);
  }
};

/// Scaled gradients of occurrences [begin, end), added in order.
template <int W, class T>
__device__ Pack<float, W> stream_occurrences(const BucketGradients<T>& gradients,
                                             std::uint32_t begin, std::uint32_t end,
                                             unsigned column) {
  Pack<float, W> sum{};
  stream_vectors<kVectorsAhead<T>>(
      gradients.buckets, begin, end,
      [&](std::uint32_t bucket) { return ScaledVector<W, T>::load(gradients, bucket, column); },
      [&](std::uint32_t, const ScaledVector<W, T>& vector) { vector.add_to(sum); });
  return sum;
}

/// The next N occurrences, or fewer, of a run.
template <unsigned N>
struct Occurrences {
  std::uint32_t bucket[N];
  unsigned count;

  Occurrences() = default;
  template <class T>
  __device__ Occurrences(const BucketGradients<T>& gradients, std::uint32_t begin,
                         std::uint32_t end)
      : count(min(end - begin, N)) {
#pragma unroll
    for (unsigned u = 0; u < N; ++u) bucket[u] = u < count ? gradients.buckets[begin + u] : 0;
  }
};

/// Their vectors at columns [column, column + W), as loads under way.
template <int W, unsigned N, class T>
struct OccurrenceVectors {
  Pack<T, W> x[N];
  float scale[N];
  unsigned count;

  __device__ OccurrenceVectors(const BucketGradients<T>& gradients, const Occurrences<N>& next,
                               unsigned column)
      : count(next.count) {
#pragma unroll
    for (unsigned u = 0; u < N; ++u) {
      x[u] = {};
      scale[u] = 1.0f;
      if (u < count) {
        x[u] = load_pack<W>(gradients.at(next.bucket[u]) + column);
        if (gradients.scales) scale[u] = gradients.scales[next.bucket[u]];
      }
    }
  }

  /// sum += scale * x of each, in order.
  __device__ void add_to(Pack<float, W>& sum) const {
#pragma unroll
    for (unsigned u = 0; u < N; ++u) {
      if (u < count) {
#pragma unroll
        for (int k = 0; k < W; ++k) sum.v[k] = fmaf(scale[u], widen(x[u].v[k]), sum.v[k]);
      }
    }
  }
};

/// The same with N loads under way, for float32: numbers of 16 bits are taken apart, and waited
/// for, before the next bucket numbers are asked for, or one by one where rows have gaps.
template <int W, unsigned N, class T>
__device__ Pack<float, W> sum_occurrences(const BucketGradients<T>& gradients, std::uint32_t begin,
                                          std::uint32_t end, unsigned column) {
  Pack<float, W> sum{};
  Occurrences<N> next(gradients, begin, end);
  for (std::uint32_t i = begin; i < end;) {
    const OccurrenceVectors<W, N, T> vectors(gradients, next, column);
    i += vectors.count;
    next = Occurrences<N>(gradients, i, end);
    vectors.add_to(sum);
  }
  return sum;
}

}  // namespace hugectr::cuda
