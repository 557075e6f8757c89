// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstring>

#include "core/cpp/base/half.hpp"
#include "core/cpp/base/random.hpp"

/// Rounding to bfloat16 that is right on average, by random bits that depend on what is rounded
/// (row, step, column) and never on where it lies, on which device, or in which order.
namespace hugectr {

/// The numbers that one row draws in all its life. `slot`: 0 where slots are no part of identity.
HCTR_HD inline std::uint64_t row_stream(std::uint64_t seed, std::uint64_t table, std::uint32_t slot,
                                        std::uint64_t widened_key) {
  return mix_key(mix_key(seed, mix_key(table, slot)), widened_key);
}

/// Those of one step: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014) begun at a state of the row and the step.
HCTR_HD inline std::uint64_t step_stream(std::uint64_t row_stream, std::int64_t step) {
  return mix_key(row_stream, static_cast<std::uint64_t>(step));
}

/// Four neighbouring columns (column / 4 = group): 16 bits each, those of the first are the lowest.
HCTR_HD inline std::uint64_t rounding_bits(std::uint64_t step_stream, std::uint64_t group) {
  return mix_key(step_stream, group);
}

/// One of the two bfloat16 around value: the one farther from zero when the 16 bits that are cut
/// off and these 16 random bits carry, which of the 65536 values of `random` do exactly as many as
/// value is 65536ths of the way there: the mean over all of them is the value. What is a bfloat16,
/// infinite or NaN stays so, and nothing finite becomes infinite.
HCTR_HD inline BFloat16 round_stochastically(float value, std::uint32_t random) {
  constexpr std::uint32_t kExponent = 0x7F800000u, kQuiet = 0x00400000u;
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint32_t carried = bits + (random & 0xFFFFu);
  if ((bits & kExponent) == kExponent) {
    const bool nan = (bits & ~(kExponent | 0x80000000u)) != 0;
    bits |= nan ? kQuiet : 0u;
  } else if ((carried & kExponent) != kExponent) {
    bits = carried;
  }
  return BFloat16{static_cast<std::uint16_t>(bits >> 16)};
}

}  // namespace hugectr
