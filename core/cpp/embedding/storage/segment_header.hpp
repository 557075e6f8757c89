// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace hugectr {

/// What a segment file begins with (SegmentFile), in a block of zeros.
struct SegmentHeader {
  static constexpr std::uint32_t kVersion = 1;

  char magic[8] = {'H', 'C', 'T', 'R', 'R', 'O', 'W', 'S'};
  std::uint32_t version = kVersion;
  std::uint32_t row_bytes = 0, group_bytes = 0, number = 0, table = 0, crc = 0;
  std::uint64_t owner = 0;
};
static_assert(sizeof(SegmentHeader) == 40);

}  // namespace hugectr
