// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstdint>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// IEEE binary16 as stored; arithmetic is always done in float.
struct Float16 {
  std::uint16_t bits = 0;
};

/// bfloat16 as stored; arithmetic is always done in float.
struct BFloat16 {
  std::uint16_t bits = 0;
};

/// Round to nearest even; values beyond the range become infinities, NaN stays NaN.
HCTR_API Float16 to_float16(float value);
HCTR_API float to_float(Float16 value);
HCTR_API BFloat16 to_bfloat16(float value);

inline float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

}  // namespace hugectr
