// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstdint>

#include "core/cpp/base/export.hpp"

/// Numbers of 8 bits as factors of products, and the one scale that a tensor of them has: a power
/// of two, so that scaling is exact, and what a number is rounded to depends on the scale only
/// where it is below 2^-14 (e4m3) or 2^-29 (e5m2) of the largest.
namespace hugectr {

/// E4M3: 3 bits of mantissa, largest 448, no infinity. E5M2: 2 bits, largest 57344.
enum class Float8 : int { E4M3 = 0, E5M2 = 1 };

struct Float8Format {
  int mantissa;  ///< stored bits
  int emin;      ///< exponent of the smallest normal number
  int top;       ///< the largest number is 1.75 * 2^top
};

HCTR_HD constexpr Float8Format float8_format(Float8 kind) {
  return kind == Float8::E4M3 ? Float8Format{3, -6, 8} : Float8Format{2, -14, 15};
}

namespace float8 {

inline constexpr std::uint32_t kInfinity = 0x7F800000u;
HCTR_HD inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
HCTR_HD inline float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
/// 2^e for -126 <= e <= 127.
HCTR_HD inline float power_of_two(int e) {
  return from_bits(static_cast<std::uint32_t>(e + 127) << 23);
}

}  // namespace float8

/// The bits of |x|, which are in the order of the numbers; 0 for NaN and infinities, which have no
/// say in the scale of their tensor.
HCTR_HD inline std::uint32_t float8_size(float x) {
  const std::uint32_t bits = float8::bits_of(x) & 0x7FFFFFFFu;
  return bits < float8::kInfinity ? bits : 0u;
}

/// k of a tensor whose largest float8_size() is `most`: x / 2^k is in the format's range, and the
/// largest within a factor of 2 of its end. -126 where the tensor has nothing but zeros.
HCTR_HD inline int float8_exponent(Float8 kind, std::uint32_t most) {
  int e = static_cast<int>(most >> 23) - 127;
  if ((most & 0x7FFFFFu) > 0x600000u) ++e;  // beyond 1.75 times the power of two
  const int k = e - float8_format(kind).top;
  return k < -126 ? -126 : k;
}

/// The nearest number of the format, ties to even, for |x| within its range; NaN for what is not
/// finite.
HCTR_HD inline float round_to_float8(Float8 kind, float x) {
  const Float8Format format = float8_format(kind);
  const std::uint32_t bits = float8::bits_of(x), size = bits & 0x7FFFFFFFu, sign = bits ^ size;
  const int drop = 23 - format.mantissa;
  const std::uint32_t half = (1u << (drop - 1)) - 1u + (size >> drop & 1u);
  const std::uint32_t normal = (size + half) >> drop << drop;
  // Below the normal numbers all are multiples of one unit: those of the last place of `shift`.
  const float shift = float8::power_of_two(format.emin + drop);
  const std::uint32_t small = float8::bits_of((float8::from_bits(size) + shift) - shift);
  const bool is_small = size < static_cast<std::uint32_t>(format.emin + 127) << 23;
  const std::uint32_t rounded = is_small ? small : normal;
  return float8::from_bits(size < float8::kInfinity ? sign | rounded : 0x7FC00000u);
}

}  // namespace hugectr
