// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_pipeline.h>

#include <type_traits>

#include "core/cuda/primitives/real.cuh"

/// X of a sample in shared memory, as floats, whatever its dtype, shape and alignment.
namespace hugectr::cuda {

/// Where X of a sample lies and how it is laid out in shared memory: rows `pitch` apart, padded
/// with zeros to `quads` times 4 columns.
template <class T>
struct Samples {
  Rows<const T> mlp, emb;
  std::size_t batch = 0, rows = 0, width = 0;  ///< rows: T
  std::size_t quads = 0, pitch = 0;
  FastDivide by_chunks;  ///< chunks of a row: quads when `packs`, else columns
  bool packs = false;
};

/// True when rows may be read four elements at a time.
template <class T>
bool fits(const TensorRef& ref) {
  return ref.empty() || packs_fit(ref.ptr<T>(), ref.rows() > 1 ? ref.row_stride : 0, 4);
}

template <class T>
Samples<T> samples_of(const TensorRef& mlp, const TensorRef& emb) {
  Samples<T> s;
  s.mlp = rows_of<const T>(mlp);
  s.emb = rows_of<const T>(emb);
  s.batch = mlp.rows();
  s.rows = emb.shape[1] + 1;
  s.width = mlp.shape[1];
  s.quads = (s.width + 3) / 4;
  // An odd number of quads apart, eight rows read at one column lie in different banks.
  s.pitch = 4 * (s.quads | 1);
  s.packs = s.width % 4 == 0 && fits<T>(mlp) && fits<T>(emb);
  s.by_chunks = FastDivide(s.packs ? s.quads : s.width);
  return s;
}

/// Row n of X in global memory.
template <class T>
__device__ const T* row_of(const Samples<T>& s, std::size_t sample, std::size_t n) {
  return n == 0 ? s.mlp.at(sample, 0) : s.emb.at(sample, (n - 1) * s.width);
}

// Starts to copy X of a sample into shared memory. Ends with __pipeline_commit() by the caller.
template <class T>
__device__ void begin_copy(const Samples<T>& s, std::size_t sample, float* x) {
  const std::size_t chunks = s.packs ? s.quads : s.width;
  for (std::size_t i = threadIdx.x; i < s.rows * chunks; i += blockDim.x) {
    std::size_t chunk;
    const std::size_t n = s.by_chunks.divide(i, chunk);
    const T* from = row_of(s, sample, n) + chunk * (s.packs ? 4 : 1);
    float* to = x + n * s.pitch + chunk * (s.packs ? 4 : 1);
    if constexpr (std::is_same_v<T, float>) {
      if (s.packs) {
        __pipeline_memcpy_async(to, from, 16);
      } else {
        __pipeline_memcpy_async(to, from, 4);
      }
    } else if (s.packs) {
      *reinterpret_cast<Pack<float, 4>*>(to) = load_widened<4>(from);
    } else {
      *to = widen(*from);
    }
  }
}

// Zeros in the columns between width and 4 * quads, where no copy ever writes.
template <class T>
__device__ void clear_padding(const Samples<T>& s, float* x) {
  const std::size_t padding = s.quads * 4 - s.width;
  for (std::size_t i = threadIdx.x; i < s.rows * padding; i += blockDim.x) {
    x[i / padding * s.pitch + s.width + i % padding] = 0.0f;
  }
}

}  // namespace hugectr::cuda
