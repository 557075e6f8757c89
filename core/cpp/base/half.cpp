// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/half.hpp"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace hugectr {
namespace {

/// value >> shift, rounded to nearest even; shift in 1..31.
std::uint32_t shift_round_even(std::uint32_t value, int shift) {
  const std::uint32_t half = 1u << (shift - 1);
  const std::uint32_t rest = value & ((1u << shift) - 1);
  const std::uint32_t kept = value >> shift;
  return kept + (rest > half || (rest == half && (kept & 1u)));
}

}  // namespace

Float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
#if defined(__F16C__)
  // The same but for NaN, whose payload the instruction changes.
  if (magnitude <= 0x7f800000u) {
    return Float16{static_cast<std::uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT))};
  }
#endif
  std::uint32_t result;
  if (magnitude > 0x7f800000u) {
    // NaN: the payload's upper bits stay, unless that would turn it into an infinity.
    const std::uint32_t payload = (magnitude >> 13) & 0x3ffu;
    result = 0x7c00u | (payload != 0 ? payload : 0x200u);
  } else if (magnitude >= 0x47800000u) {
    result = 0x7c00u;  // 65536 and beyond, infinity
  } else if (magnitude >= 0x38800000u) {
    // Normal: rebias the exponent (127 -> 15). A carry out of the mantissa moves up to the next
    // exponent, and from 65504 to infinity, by itself.
    result = shift_round_even(magnitude - (112u << 23), 13);
  } else if (magnitude >= 0x33000000u) {
    // Subnormal, in units of 2^-24.
    const int exponent = static_cast<int>(magnitude >> 23);
    result = shift_round_even((magnitude & 0x7fffffu) | 0x800000u, 126 - exponent);
  } else {
    result = 0;  // below half of the smallest subnormal
  }
  return Float16{static_cast<std::uint16_t>(sign | result)};
}

float to_float(Float16 value) {
#if defined(__F16C__)
  if ((value.bits & 0x7fffu) <= 0x7c00u) return _cvtsh_ss(value.bits);
#endif
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  }
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // exact
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    const auto upper = static_cast<std::uint16_t>(bits >> 16);
    return BFloat16{static_cast<std::uint16_t>((upper & 0x7fu) != 0 ? upper : upper | 0x40u)};
  }
  return BFloat16{static_cast<std::uint16_t>(shift_round_even(bits, 16))};
}

}  // namespace hugectr
