// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cmath>
#include <cstdint>

#include "core/cpp/base/export.hpp"

/// Counter-based random numbers: a value depends on (key, counter) only, never on call order,
/// thread or device. Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
/// as 1, 2, 3", SC 2011.
namespace hugectr {

struct Philox4 {
  std::uint32_t x[4];
};

/// Ten rounds of Philox4x32 on a 128-bit counter with a 64-bit key.
HCTR_HD inline Philox4 philox4x32(std::uint64_t key, std::uint64_t counter_low,
                                  std::uint64_t counter_high) {
  Philox4 c{{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
             static_cast<std::uint32_t>(counter_high),
             static_cast<std::uint32_t>(counter_high >> 32)}};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * c.x[0];
    const std::uint64_t p1 = 0xCD9E8D57ull * c.x[2];
    c = Philox4{{static_cast<std::uint32_t>(p1 >> 32) ^ c.x[1] ^ k0, static_cast<std::uint32_t>(p1),
                 static_cast<std::uint32_t>(p0 >> 32) ^ c.x[3] ^ k1,
                 static_cast<std::uint32_t>(p0)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// Maps 32 random bits to [0, 1) with 24 bits of resolution, exactly, on every device.
HCTR_HD inline float unit_float(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

/// Maps 32 random bits to [-bound, bound); one explicit fma so that CPU and GPU agree bit for bit.
HCTR_HD inline float symmetric_float(std::uint32_t bits, float bound) {
  return fmaf(unit_float(bits), 2.0f * bound, -bound);
}

/// Mixes two 64-bit words into one stream key (splitmix64 finaliser on a ^ golden-ratio * b).
HCTR_HD inline std::uint64_t mix_key(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a + 0x9E3779B97F4A7C15ull * (b + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace hugectr
