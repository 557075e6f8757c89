// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/cpp/base/half.hpp"

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

/// Fetches a row of floats into the second-level cache, which keeps more fetches under way than the
/// first; what is beyond four lines, the hardware fetches itself. Always inline, and not to be
/// wrapped: GCC takes a function that only prefetches for one without effect and drops its calls.
[[gnu::always_inline]] inline void prefetch_row(const float* row, std::size_t vec_size) {
  const std::size_t floats = vec_size < 64 ? vec_size : 64;
  for (std::size_t i = 0; i < floats; i += 16) __builtin_prefetch(row + i, 0, 2);
}

[[gnu::always_inline]] inline void prefetch_row(const BFloat16* row, std::size_t vec_size) {
  const std::size_t numbers = vec_size < 128 ? vec_size : 128;
  for (std::size_t i = 0; i < numbers; i += 32) __builtin_prefetch(row + i, 0, 2);
}

/// Eight floats as one vector register: the compiler does not prove by itself that two rows do not
/// overlap. GCC and Clang.
using RowLanes = float __attribute__((vector_size(32)));

/// f(i) for every group of eight columns, then g(c) for every column that is left.
template <std::size_t D, class Group, class Single>
[[gnu::always_inline]] inline void for_columns(std::size_t vec_size, const Group& group,
                                               const Single& single) {
  const std::size_t d = D ? D : vec_size;
  const std::size_t grouped = d / 8 * 8;
  for (std::size_t c = 0; c < grouped; c += 8) group(c);
  for (std::size_t c = grouped; c < d; ++c) single(c);
}

[[gnu::always_inline]] inline RowLanes load_row(const float* p) {
  RowLanes lanes;
  __builtin_memcpy(&lanes, p, sizeof lanes);
  return lanes;
}
[[gnu::always_inline]] inline RowLanes load_row(const BFloat16* p) {
  using Halves = std::uint16_t __attribute__((vector_size(16)));
  using Words = std::uint32_t __attribute__((vector_size(32)));
  Halves halves;
  __builtin_memcpy(&halves, p, sizeof halves);
  const Words words = __builtin_convertvector(halves, Words) << 16;
  RowLanes lanes;
  __builtin_memcpy(&lanes, &words, sizeof lanes);
  return lanes;
}
[[gnu::always_inline]] inline float load_number(const float* p) { return *p; }
[[gnu::always_inline]] inline float load_number(const BFloat16* p) { return to_float(*p); }
[[gnu::always_inline]] inline void store_row(float* p, RowLanes lanes) {
  __builtin_memcpy(p, &lanes, sizeof lanes);
}

/// y := scale * x; x is float or BFloat16
template <std::size_t D, class X>
[[gnu::always_inline]] inline void set_scaled(float* y, const X* x, float scale,
                                              std::size_t vec_size) {
  for_columns<D>(
      vec_size, [&](std::size_t c) { store_row(y + c, load_row(x + c) * scale); },
      [&](std::size_t c) { y[c] = load_number(x + c) * scale; });
}
/// y += scale * x
template <std::size_t D, class X>
[[gnu::always_inline]] inline void add_scaled(float* y, const X* x, float scale,
                                              std::size_t vec_size) {
  for_columns<D>(
      vec_size, [&](std::size_t c) { store_row(y + c, load_row(y + c) + load_row(x + c) * scale); },
      [&](std::size_t c) { y[c] += load_number(x + c) * scale; });
}

}  // namespace hugectr
