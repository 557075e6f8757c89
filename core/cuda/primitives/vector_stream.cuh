// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/ops/loops/hash_probe.hpp"

/// Vectors that a list names one after the other, as a worker that sums neighbouring parts of the
/// list reads them: N at a time, however many vectors a part has; the numbers of the next vectors
/// are fetched meanwhile.
namespace hugectr::cuda {

/// N for vectors of T: as many bytes under way in 16 bits as in 32.
template <class T>
inline constexpr unsigned kVectorsAhead = 16 / sizeof(T);

/// Calls take(i, load(numbers[i])) for i in [begin, end), in order, with N loads under way; kNoRow
/// stands for a vector of zeros.
template <unsigned N, class Load, class Take>
__device__ void stream_vectors(const std::uint32_t* numbers, std::uint32_t begin, std::uint32_t end,
                               const Load& load, const Take& take) {
  std::uint32_t number[N];
  const auto fetch_numbers = [&](std::uint32_t at) {
#pragma unroll
    for (unsigned u = 0; u < N; ++u) number[u] = at + u < end ? numbers[at + u] : kNoRow;
  };
  fetch_numbers(begin);
  for (std::uint32_t i = begin; i < end; i += N) {
    const std::uint32_t ahead = min(end - i, N);
    decltype(load(0u)) x[N];
#pragma unroll
    for (unsigned u = 0; u < N; ++u) {
      x[u] = {};
      if (number[u] != kNoRow) x[u] = load(number[u]);
    }
    fetch_numbers(i + N);
#pragma unroll
    for (unsigned u = 0; u < N; ++u) {
      if (u < ahead) take(i + u, x[u]);
    }
  }
}

}  // namespace hugectr::cuda
