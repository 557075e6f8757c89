// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {

/// X of every sample, in 16 bits: row 0 is mlp, the others are the slots of emb.
template <class T>
struct SampleRows {
  Rows<const T> mlp, emb;
  unsigned batch = 0;
  unsigned count = 0;  ///< rows of X; 0: not for the tensor cores
  unsigned width = 0;

  /// Row n; no valid address when there is none.
  __device__ const T* at(std::size_t sample, unsigned n) const {
    const T* slots = emb.at(sample, 0);
    return n == 0 ? mlp.at(sample, 0) : slots + (n - 1) * width;
  }
};

/// True when the rows begin at multiples of 16 bytes, or there are none.
template <class T>
bool whole_packs(const TensorRef& ref) {
  return ref.empty() || packs_fit(ref.ptr<T>(), ref.rows() > 1 ? ref.row_stride : 0, 8);
}

inline constexpr std::size_t kMostRows = 64;

template <class T>
SampleRows<T> tensor_core_rows(const TensorRef& mlp, const TensorRef& emb) {
  constexpr std::size_t kMostWidth = std::size_t{1} << 20, kMostSamples = std::size_t{1} << 30;
  const std::size_t rows = emb.shape[1] + 1, width = mlp.shape[1];
  SampleRows<T> result;
  if (rows > kMostRows || width == 0 || width % 8 != 0 || width > kMostWidth) return result;
  if (mlp.rows() > kMostSamples || !whole_packs<T>(mlp) || !whole_packs<T>(emb)) return result;
  result.mlp = rows_of<const T>(mlp);
  result.emb = rows_of<const T>(emb);
  result.batch = static_cast<unsigned>(mlp.rows());
  result.count = static_cast<unsigned>(rows);
  result.width = static_cast<unsigned>(width);
  return result;
}

}  // namespace hugectr::cuda
