// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <type_traits>

namespace hugectr {

/// Calls f(std::integral_constant<std::size_t, D>) with D = vec_size for the usual vector sizes,
/// else D = 0 (size known at run time only): a row loop of fixed length becomes a few vector
/// instructions.
template <class F>
void with_vec_size(std::size_t vec_size, const F& f) {
  switch (vec_size) {
    case 8:
      return f(std::integral_constant<std::size_t, 8>{});
    case 16:
      return f(std::integral_constant<std::size_t, 16>{});
    case 32:
      return f(std::integral_constant<std::size_t, 32>{});
    case 64:
      return f(std::integral_constant<std::size_t, 64>{});
    case 128:
      return f(std::integral_constant<std::size_t, 128>{});
    default:
      return f(std::integral_constant<std::size_t, 0>{});
  }
}

/// Fetches a row of floats into the cache; what is beyond four lines, the hardware fetches itself.
inline void prefetch_row(const float* row, std::size_t vec_size) {
  const std::size_t floats = vec_size < 64 ? vec_size : 64;
  for (std::size_t i = 0; i < floats; i += 16) __builtin_prefetch(row + i);
}

}  // namespace hugectr
