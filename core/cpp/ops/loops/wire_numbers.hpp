// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/random.hpp"
#include "core/cpp/base/stochastic_rounding.hpp"

/// Numbers of 16 and 8 bits that vectors travel between devices in, and how float32 is rounded to
/// them: to nearest even, or up or down by chance so that the mean is the number itself. One
/// formula for both devices, exact but for that choice.
namespace hugectr {

/// What a number of a vector travels as. Vectors of Float16 and Float8 (e4m3: 3 bits of mantissa,
/// largest 448) have a scale of their own, a power of two, so that none leaves their range.
enum class WireType : int { Own = 0, Float32 = 1, BFloat16 = 2, Float16 = 3, Float8 = 4 };

/// A binary format of few bits. emin: exponent of the smallest normal number.
struct WireFormat {
  int mantissa;  ///< stored bits
  int emin, bias;
  int top;  ///< scaled numbers are below 2^(top + 1)
  bool scaled;
  int bytes;
};

HCTR_HD constexpr WireFormat wire_format(WireType type) {
  if (type == WireType::Float16) return {10, -14, 15, 14, true, 2};
  if (type == WireType::Float8) return {3, -6, 7, 8, true, 1};
  return {7, -126, 127, 127, false, 2};
}

/// Bytes of a vector of d numbers: those of its scale, if it has one, and the numbers, a multiple
/// of 4.
HCTR_HD inline std::size_t wire_bytes(WireType type, std::size_t d) {
  if (type == WireType::Own || type == WireType::Float32) return 4 * d;
  const WireFormat format = wire_format(type);
  return (format.scaled ? 4 : 0) + (d * static_cast<std::size_t>(format.bytes) + 3) / 4 * 4;
}

namespace wire {

HCTR_HD inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
HCTR_HD inline float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
/// 2^e for -126 <= e <= 127.
HCTR_HD inline float power_of_two(int e) {
  return from_bits(static_cast<std::uint32_t>(e + 127) << 23);
}

}  // namespace wire

/// Scale of a vector whose largest absolute value is `most`: 2^k, so that most / 2^k is in range.
/// NaN when the vector holds one or an infinity.
HCTR_HD inline float wire_scale(WireType type, float most) {
  const WireFormat format = wire_format(type);
  if (!(most <= 3.4028235e38f)) return wire::from_bits(0x7FC00000u);
  int e = static_cast<int>(wire::bits_of(most) >> 23) - 127;
  // 448 = 1.75 * 2^8: numbers of more mantissa than that need the next power.
  if (format.mantissa == 3 && (wire::bits_of(most) & 0x7FFFFFu) > 0x600000u) ++e;
  const int k = e - format.top;
  return wire::power_of_two(k < -126 ? -126 : k);
}

/// One number, scaled, as bits of `type`. `up`: 32 random bits, or with `nearest` unused.
HCTR_HD inline std::uint32_t wire_encode(WireType type, float x, bool nearest, std::uint32_t up) {
  const std::uint32_t bits = wire::bits_of(x), sign = bits >> 31, size = bits & 0x7FFFFFFFu;
  if (type == WireType::BFloat16) {
    if (!nearest) return round_stochastically(x, up >> 16).bits;
    if (size > 0x7F800000u) return bits >> 16 | 0x40u;
    if (size == 0x7F800000u) return bits >> 16;
    return (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
  }
  const WireFormat format = wire_format(type);
  int e = static_cast<int>(size >> 23) - 127;
  if (e < format.emin) e = format.emin;
  // In units of the last place: exact, as both factors are powers of two.
  const float places = wire::from_bits(size) * wire::power_of_two(format.mantissa - e);
  auto whole = static_cast<std::uint32_t>(places);
  const float rest = places - static_cast<float>(whole);
  if (nearest) {
    whole += rest > 0.5f || (rest == 0.5f && whole % 2 == 1) ? 1u : 0u;
  } else {
    whole += unit_float(up) < rest ? 1u : 0u;
  }
  // A mantissa that rounds up to the next power carries into the exponent by itself, and the
  // hidden bit of a normal number is what makes its exponent one more than a subnormal's.
  const auto first = static_cast<std::uint32_t>(e - format.emin) << format.mantissa;
  const int width = format.bytes * 8 - 1;
  return sign << width | (first + whole);
}

/// The number that these bits are.
HCTR_HD inline float wire_decode(WireType type, std::uint32_t bits) {
  if (type == WireType::BFloat16) return wire::from_bits(bits << 16);
  const WireFormat format = wire_format(type);
  const int width = format.bytes * 8 - 1;
  const std::uint32_t size = bits & ((1u << width) - 1u);
  const int field = static_cast<int>(size >> format.mantissa);
  const std::uint32_t part = size & ((1u << format.mantissa) - 1u);
  const std::uint32_t whole = field == 0 ? part : part | 1u << format.mantissa;
  const int e = (field == 0 ? 1 : field) - format.bias - format.mantissa;
  const float value = static_cast<float>(whole) * wire::power_of_two(e);
  return bits >> width ? -value : value;
}

/// What a number adds to the content of its vector: a sum over its columns, in any order.
HCTR_HD inline std::uint64_t wire_content(float x, std::uint64_t column) {
  return mix_key(wire::bits_of(x), column);
}

/// Random bits of four neighbouring numbers of a vector, those from 4 * quarter on.
HCTR_HD inline Philox4 wire_bits(std::uint64_t key, std::uint64_t content, std::uint64_t quarter) {
  return philox4x32(key, quarter, content);
}

}  // namespace hugectr
