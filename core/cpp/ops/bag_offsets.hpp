// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Offsets of one feature's bags as lookups take them, out of offsets that nobody has looked at:
///   bags[b] = clamp(offsets[b], first, last) - first
///   wrong[0] := 1 unless offsets[0] = first, offsets[m] = last and none is below the one before
/// offsets (m + 1) int64 or int32; bags (m + 1) uint32; wrong (1) int64, left as it is where all is
/// well. first and last, at most 2^32 - 1 apart: where the feature's keys begin and end. So no bag
/// names a key that is not the feature's, whatever came. Overwrites bags; no overlap.
/// Deterministic.
struct HCTR_API BagOffsets {
  static constexpr const char* kName = "bag_offsets";
  static constexpr const char* kSeveralName = "several_bag_offsets";
  TensorRef offsets, bags, wrong;
  std::int64_t first = 0, last = 0;

  void visit(OpVisitor& v) {
    v.tensor("offsets", Access::In, offsets);
    v.tensor("bags", Access::Out, bags);
    v.tensor("wrong", Access::InOut, wrong);
    v.attribute("first", first);
    v.attribute("last", last);
  }
  void check() const;
};

/// An offset within the keys of the feature, from the first of them.
HCTR_HD inline std::uint32_t offset_within(std::int64_t offset, std::int64_t first,
                                           std::int64_t last) {
  const std::int64_t within = offset < first ? first : offset > last ? last : offset;
  return static_cast<std::uint32_t>(within - first);
}

/// Whether offsets[b] is what may stand at place b of m + 1.
template <class Offset>
HCTR_HD bool offset_is_wrong(const Offset* offsets, std::size_t b, std::size_t m,
                             std::int64_t first, std::int64_t last) {
  return (b == 0 && offsets[0] != first) || (b == m && offsets[m] != last) ||
         (b > 0 && offsets[b] < offsets[b - 1]);
}

}  // namespace hugectr
