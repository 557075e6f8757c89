// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace hugectr {

/// What loss scaling goes on from; without it the scale is 1 and nothing is counted.
struct LossScalingState {
  float scale = 1.0f;
  std::int64_t good_steps = 0;     ///< since the last overflow or doubling
  std::int64_t skipped_steps = 0;  ///< in all
};

}  // namespace hugectr
