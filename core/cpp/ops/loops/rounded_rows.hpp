// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/loops/row_rounding.hpp"
#include "core/cpp/ops/loops/vec_size_dispatch.hpp"

/// Rows of a table that are kept in bfloat16, as the CPU's rules have them.
namespace hugectr {

/// to[i] = from[i], n of them.
inline void widen_row(const BFloat16* from, std::size_t n, float* to) {
  for_columns<0>(
      n, [&](std::size_t c) { store_row(to + c, load_row(from + c)); },
      [&](std::size_t c) { to[c] = load_number(from + c); });
}

/// round_stochastically() of eight neighbours at once: the compiler makes no vectors of its cases.
[[gnu::always_inline]] inline void round_eight(const float* from,
                                               const std::array<std::uint64_t, 2>& random,
                                               BFloat16* to) {
  using Halves = std::uint16_t __attribute__((vector_size(16)));
  using Words = std::uint32_t __attribute__((vector_size(32)));
  static_assert(std::endian::native == std::endian::little);
  Halves low;
  Words bits;
  __builtin_memcpy(&low, random.data(), sizeof low);
  __builtin_memcpy(&bits, from, sizeof bits);
  const Words exponent = Words{} + 0x7F800000u;
  const Words carried = bits + __builtin_convertvector(low, Words);
  const auto special = (bits & exponent) == exponent;
  const auto nan = (bits & 0x7FFFFFFFu) > exponent;
  const auto becomes_infinite = (carried & exponent) == exponent;
  const Words kept = bits | (reinterpret_cast<Words>(nan) & 0x00400000u);
  const Words rounded = special | becomes_infinite ? kept : carried;
  const Halves upper = __builtin_convertvector(rounded >> 16, Halves);
  __builtin_memcpy(static_cast<void*>(to), &upper, sizeof upper);
}

/// What all rows of an update are rounded by.
class RoundedStep {
 public:
  RoundedStep(const RowRounding& by, std::int64_t step)
      : by_(by),
        step_(step),
        wide_(by.row_keys.dtype == TensorScalarType::Int64),
        first_group_(static_cast<std::size_t>(by.first_column) / 4) {}

  /// to[c] = from[c] rounded, n of them: the columns of this device of row `number`.
  void round(std::size_t number, const float* from, std::size_t n, BFloat16* to) const {
    const std::uint64_t key = wide_ ? widen_key(by_.row_keys.ptr<std::int64_t>()[number])
                                    : widen_key(by_.row_keys.ptr<std::uint32_t>()[number]);
    const std::uint32_t slot =
        by_.row_slots.empty() ? 0 : by_.row_slots.ptr<std::uint32_t>()[number];
    const std::uint64_t stream = step_stream(row_stream(by_.seed, by_.table, slot, key), step_);
    std::size_t c = 0;
    for (; c + 8 <= n; c += 8) {
      round_eight(from + c,
                  {rounding_bits(stream, first_group_ + c / 4),
                   rounding_bits(stream, first_group_ + c / 4 + 1)},
                  to + c);
    }
    for (; c < n; c += 4) {
      const std::uint64_t random = rounding_bits(stream, first_group_ + c / 4);
      for (std::size_t k = 0; k < std::min<std::size_t>(4, n - c); ++k) {
        to[c + k] = round_stochastically(from[c + k], static_cast<std::uint32_t>(random >> 16 * k));
      }
    }
  }

 private:
  const RowRounding& by_;
  std::int64_t step_;
  bool wide_;
  std::size_t first_group_;
};

}  // namespace hugectr
